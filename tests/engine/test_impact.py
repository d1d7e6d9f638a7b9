"""Whom a change of one job delays or helps: as the simple way says, which decides twice anew."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.engine.asking import Start, impact_of, with_limit, with_most, with_tier
from scheduler.engine.asking.impact import LEAST_DELAY_S
from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import DEFAULT_POLICY
from scheduler.engine.snapshot import Snapshot
from scheduler.states import Tier
from tests.builders import draw, job
from tests.engine.test_properties import snapshots


def simple_starts(snapshot: Snapshot) -> dict[int, float | None]:
    plan = plan_cycle(snapshot, DEFAULT_POLICY)
    known = zip(plan.waits.job.tolist(), plan.waits.forecast.p90_s.tolist(), strict=True)
    starts = {job_id: None if at_s != at_s else at_s for job_id, at_s in known}
    return starts | {start.job: float(snapshot.now_s) for start in plan.starts}


@given(snapshots(), st.data())
@settings(deadline=None)
def test_an_impact_equals_two_decisions_laid_side_by_side(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    ids = sorted({*snapshot.waiting.id.tolist(), *snapshot.held.job.tolist()})
    assume(ids)
    changed = data.draw(st.sampled_from(ids))
    after = data.draw(
        st.sampled_from(
            [
                with_limit(snapshot, changed, 7200),
                with_most(snapshot, changed, 0, snapshot.now_s + 30),
                with_tier(snapshot, changed, int(Tier.URGENT)),
            ]
        )
    )
    found = impact_of(snapshot, after, DEFAULT_POLICY, changed)
    was, then = simple_starts(snapshot), simple_starts(after)
    both = [Start(one, at_s, then.get(one)) for one, at_s in was.items()]
    assert found.own == next((one for one in both if one.job == changed), None)
    others = [one for one in both if one.job != changed]
    late = [one for one in others if one.delay_s >= LEAST_DELAY_S]
    soon = [one for one in others if one.delay_s <= -LEAST_DELAY_S]
    assert found.delayed == tuple(sorted(late, key=lambda one: (-one.delay_s, one.job)))
    assert found.sooner == tuple(sorted(soon, key=lambda one: (one.delay_s, one.job)))


def test_who_waits_for_a_running_job_is_delayed_by_all_that_it_gets_more() -> None:
    snapshot = draw("a 11", jobs=[job(5, "1x2", limit_s=600), job(6, "1x1")])
    found = impact_of(snapshot, with_limit(snapshot, 1, 3600), DEFAULT_POLICY, 1)
    assert found.own is None
    assert [one.job for one in found.delayed] == [5, 6]
    assert all(one.delay_s == 3600 for one in found.delayed)
