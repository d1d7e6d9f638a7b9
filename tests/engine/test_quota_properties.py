"""What holds for any limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.policy import Order, Policy
from scheduler.engine.sharing.purse import Bounds, bounds_of
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import NONE, Snapshot, classes_of, ints
from scheduler.states import wait_sentence
from tests.engine.lending import assert_borrowed_is_lent, assert_no_limit_exceeded
from tests.engine.owners import DrawnLimit, after, shared_by
from tests.engine.test_properties import snapshots, verdict_list

FAIR = Policy(order=Order.FAIR)

_TREE = ("org", "org/t", "org/t/p", "org/t/q", "org/u", "org/u/r")
_OWNERS = ("t", "p", "q", "u", "r", "")
_small = st.sampled_from([NONE, 0, 1, 2, 4, 8])


@st.composite
def _limits(drawing: st.DrawFn) -> list[DrawnLimit]:
    found = []
    for name in [line.split("/")[-1] for line in _TREE]:
        for pool, model in (("", ""), ("default", ""), ("", "H100")):
            if drawing(st.booleans()):
                borrow, lend, most = (drawing(_small) for _ in range(3))
                guaranteed = drawing(st.sampled_from([0, 0, 1, 2, 4]))
                found.append(DrawnLimit(name, guaranteed, borrow, lend, most, pool, model))
    return found


@st.composite
def limited(drawing: st.DrawFn) -> Snapshot:
    snapshot = drawing(snapshots())
    numbers = {*snapshot.waiting.id.tolist(), *snapshot.held.job.tolist()}
    owners = {number: drawing(st.sampled_from(_OWNERS)) for number in sorted(numbers)}
    limits = [one for one in drawing(_limits()) if not one.model or one.model in snapshot.models]
    caps = st.sampled_from(["", "", "", "running=2", "gpus=2", "budget=9000"])
    tree = [f"{line} {drawing(caps)}" for line in _TREE]
    return shared_by(snapshot, *tree, owners=owners, limits=limits)


@given(limited())
def test_no_limit_is_exceeded_at_any_account(snapshot: Snapshot) -> None:
    assert_no_limit_exceeded(snapshot, after(snapshot, plan_cycle(snapshot, FAIR)))


@given(limited())
def test_what_is_borrowed_is_lent(snapshot: Snapshot) -> None:
    assert_borrowed_is_lent(after(snapshot, plan_cycle(snapshot, FAIR)))


@given(limited())
def test_the_gate_counts_as_a_new_snapshot_would(snapshot: Snapshot) -> None:
    """Charging start by start equals counting anew what is held afterwards."""
    plan = plan_cycle(snapshot, FAIR)
    gate, fresh = Gate(snapshot), Gate(after(snapshot, plan))
    classes = classes_of(snapshot.waiting)
    row_of = {number: row for row, number in enumerate(snapshot.waiting.id.tolist())}
    for start in plan.starts:
        row = row_of[start.job]
        request = classes.requests[int(classes.of_job[row])]
        gate.charge(request, int(snapshot.waiting.account[row]), Bounds(1), start)
    assert gate.is_open or gate.running == fresh.running
    for scope, cohorts in fresh.cohorts.items():
        assert gate.cohorts[scope].held == cohorts.held
        assert gate.cohorts[scope].taken == cohorts.taken


@given(limited())
def test_who_asks_for_its_own_is_not_refused_while_nobody_borrows(snapshot: Snapshot) -> None:
    """Maxima that contradict a guarantee aside: the services refuse those."""
    tame = snapshot.limits
    free = ints(np.full(len(tame.account), NONE))
    snapshot = replace(
        snapshot,
        limits=replace(tame, maximum=free),
        accounts=replace(
            snapshot.accounts, max_running=free_of(snapshot), max_gpus_per_job=free_of(snapshot)
        ),
    )
    gate, classes = Gate(snapshot), classes_of(snapshot.waiting)
    if any(c.borrows(row) for c in gate.cohorts.values() for row in range(len(c.held))):
        return
    for account in range(len(snapshot.accounts)):
        for request in classes.requests:
            concerned = [c for _, c in gate.concerned(request)]
            milli = gate.least_milli(request)
            if all(c.is_guaranteed(account, milli) for c in concerned):
                assert gate.over_quota(request, account) is None


def free_of(snapshot: Snapshot):
    return ints(np.full(len(snapshot.accounts), NONE))


@given(limited())
@settings(max_examples=40)
def test_an_account_without_limits_is_kept_from_nothing(snapshot: Snapshot) -> None:
    """No limits, caps and budgets: the same plan as without accounts."""
    bare = shared_by(snapshot, *_TREE, owners={})
    assert Gate(bare).is_open
    assert verdict_list(plan_cycle(bare)) == verdict_list(
        plan_cycle(
            replace(bare, accounts=type(bare.accounts).of(parent=ints([])), account_names=())
        )
    )


@given(limited(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_rows_changes_nothing(snapshot: Snapshot, random) -> None:
    jobs, limits = list(range(len(snapshot.waiting))), list(range(len(snapshot.limits.account)))
    random.shuffle(jobs)
    random.shuffle(limits)
    shuffled = replace(snapshot.only(ints(jobs)), limits=snapshot.limits.take(ints(limits)))
    assert _told(plan_cycle(shuffled, FAIR)) == _told(plan_cycle(snapshot, FAIR))


def _told(plan) -> list[object]:
    waits = [(wait.job, wait.reason, dict(wait.facts)) for wait in plan.iter_waits()]
    return [plan.starts, plan.reservations, waits]


@given(limited())
@settings(max_examples=40)
def test_every_job_has_one_answer_and_a_whole_sentence(snapshot: Snapshot) -> None:
    plan = plan_cycle(snapshot, FAIR)
    answered = [start.job for start in plan.starts] + [wait.job for wait in plan.iter_waits()]
    assert sorted(answered) == sorted(snapshot.waiting.id.tolist())
    for wait in plan.iter_waits():
        assert "?" not in wait_sentence(wait.reason, wait.facts)


@given(limited())
def test_who_has_no_rules_is_ruled_by_the_next_above(snapshot: Snapshot) -> None:
    """Asking the account that rules it equals asking the account itself."""
    gate, waiting = Gate(snapshot), snapshot.waiting
    classes = classes_of(waiting)
    for row, account in enumerate(waiting.account.tolist()):
        request, bounds = classes.requests[classes.of_job[row]], bounds_of(waiting, row)
        ruler = int(gate.ruled_by[account])
        assert gate.bars(request, account) == gate.bars(request, ruler)
        assert gate.over_quota(request, account) == gate.over_quota(request, ruler)
        over = (gate.over_budget(request, one, bounds) for one in (account, ruler))
        assert next(over) == next(over)
        assert gate.is_guaranteed(request, account) == gate.is_guaranteed(request, ruler)
