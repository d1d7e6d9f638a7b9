"""Each policy has its method's name; what was not shared has none."""

from __future__ import annotations

import pytest

from scheduler.ledger.focus.methods import methods_of
from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.shares import IdlePolicy

NAMES = {
    IdlePolicy.EVEN: "even-v1",
    IdlePolicy.BY_USE: "by-use-v1",
    IdlePolicy.BY_GUARANTEE: "by-guarantee-v1",
    IdlePolicy.HYBRID: "hybrid-75-v1",
}


def note(pool: int, idle: str = "none", platform: str = "none") -> dict[str, object]:
    return {"pool": str(pool), "idle": idle, "platform": platform, "guarantee_percent": 75}


@pytest.mark.parametrize("policy", NAMES)
def test_a_method_is_named_by_the_pools_own_policy(policy):
    found = methods_of([note(1, policy, IdlePolicy.EVEN), note(2, platform=policy), note(3)])
    assert found == {
        "1": {
            ChargeKind.IDLE_SHARE: f"idle-{NAMES[policy]}",
            ChargeKind.PLATFORM_SHARE: "platform-even-v1",
        },
        "2": {ChargeKind.PLATFORM_SHARE: f"platform-{NAMES[policy]}"},
    }


def test_every_policy_that_shares_has_a_name():
    assert set(NAMES) == set(IdlePolicy) - {IdlePolicy.NONE}
