"""Headroom: production finds it at once, others borrow it only if they can be stopped for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import SlotKind
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Headroom, Snapshot, SnapshotInvalid, ints
from scheduler.states import Tier, WaitReason, wait_sentence
from tests.builders import NOW_S, draw, job, picture
from tests.engine.booking import roomy
from tests.engine.stopping import live, stops
from tests.engine.test_properties import with_starts


def kept(
    snapshot: Snapshot, gpus: int, *, users: Iterable[int] = (), model: int = NONE
) -> Snapshot:
    """The same with so many GPUs of pool "default"; `users`: jobs it is open to, waiting or not."""
    users = list(users)
    return replace(
        snapshot,
        headroom=Headroom(
            ints([7]), ints([snapshot.pools.index("default")]), ints([model]), ints([gpus])
        ),
        waiting=replace(snapshot.waiting, uses_headroom=np.isin(snapshot.waiting.id, users)),
        held=replace(snapshot.held, uses_headroom=np.isin(snapshot.held.job, users)),
    )


def test_who_cannot_be_stopped_is_kept_off_the_last_of_it() -> None:
    jobs = [job(5, "1x2", waited=9), job(6, "1x2", waited=5), job(7, "1x1")]
    snapshot = kept(draw("a ....", jobs=jobs), 2)
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["55.."]
    assert {wait.reason for wait in plan.iter_waits()} == {WaitReason.RESERVATION_CONFLICT}
    wait = next(plan.iter_waits())
    assert wait_sentence(wait.reason, wait.facts) == (
        "2 GPUs of pool default are kept for production, or for jobs that can be stopped for it."
    )
    (slot,) = (one for one in plan.timeline if one.kind is SlotKind.HEADROOM)
    assert (slot.owner, slot.nodes, slot.from_s) == (7, (101,), NOW_S)


def test_who_can_be_stopped_borrows_it_and_production_uses_it() -> None:
    jobs = [job(5, "1x2", waited=9), job(6, "1x2", waited=5)]
    snapshot = kept(draw("a ....", jobs=jobs), 2, users=[6])
    assert picture(snapshot, plan_cycle(snapshot)) == ["5566"]
    # What is lent counts as there, so it keeps nobody off more than that.
    lent = kept(draw("a 66..", jobs=[job(5, "1x2")]), 2, users=[6])
    assert picture(lent, plan_cycle(lent)) == ["6655"]
    held = kept(draw("a 66..", jobs=[job(5, "1x2")]), 2)
    assert plan_cycle(held).starts == ()


def test_it_lies_where_most_is_to_be_had_and_leaves_the_rest_alone() -> None:
    snapshot = kept(draw("a 1...", "b ....", "c ....", jobs=[job(5, "1x4", waited=9)]), 4)
    plan = plan_cycle(snapshot)
    assert picture(snapshot, plan) == ["1...", "....", "5555"]
    other = kept(
        draw("a ....", "b .... model=A100", jobs=[job(5, "1x4", model="A100")]), 4, model=1
    )
    assert len(plan_cycle(other).starts) == 1


@pytest.mark.parametrize(("gpus", "stopped"), [(4, [(1, 5)]), (None, [])])
def test_production_gets_it_at_once_even_from_who_has_just_begun(gpus, stopped) -> None:
    promised = Policy(preempts=True, min_run_s=600)
    drawn = draw("a 1111", jobs=[job(5, "1x4", tier=Tier.PRODUCTION)])
    drawn = live(drawn, job(1, "1x4", tier=Tier.EXPLORATORY), ran_s=[20.0])
    snapshot = drawn if gpus is None else kept(drawn, gpus, users=[1, 5])
    assert stops(plan_cycle(snapshot, promised)) == stopped


def test_others_do_not_stop_who_has_just_begun_there() -> None:
    drawn = live(draw("a 1111", jobs=[job(5, "1x4", tier=Tier.NORMAL)]),
                 job(1, "1x4", tier=Tier.EXPLORATORY), ran_s=[20.0])  # fmt: skip
    snapshot = kept(drawn, 4, users=[1, 5])
    assert plan_cycle(snapshot, Policy(preempts=True, min_run_s=600)).stops == ()


def test_bad_headroom_is_refused_by_name() -> None:
    with pytest.raises(SnapshotInvalid, match=r"headroom\.gpus"):
        plan_cycle(kept(draw("a ...."), 0))


@given(roomy(), st.integers(1, 8), st.data(), st.integers(1, 2))
def test_what_production_can_have_never_falls_below_it_by_a_start(
    snapshot, gpus, data, heads
) -> None:
    ids = [*snapshot.waiting.id.tolist(), *set(snapshot.held.job.tolist())]
    users = data.draw(st.sets(st.sampled_from(ids)), label="who may use it")
    before = kept(snapshot, gpus, users=users)
    plan = plan_cycle(before, Policy(heads=heads))
    assert all(wait.reason is not WaitReason.EVALUATING for wait in plan.iter_waits())
    after = with_starts(before, plan)
    after = kept(after, gpus, users=users)
    assert _available(after) >= min(gpus, _available(before))
    again = plan_cycle(after, Policy(heads=heads))
    assert not [start for start in again.starts if start.job not in users] or plan.reservations


def _available(snapshot: Snapshot) -> int:
    """GPUs that are free, or held by those who may use headroom."""
    devices = snapshot.devices
    in_use = np.append(snapshot.held.uses_headroom, False)[devices.holder]
    return int((devices.is_healthy & ((devices.holder == NONE) | in_use)).sum())
