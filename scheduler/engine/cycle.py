"""How a decision is made, in numbered steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.admission import Admission
from scheduler.engine.board import Board
from scheduler.engine.board.again import Boards
from scheduler.engine.checks import check_snapshot
from scheduler.engine.explaining import explain_waits, rule_out
from scheduler.engine.explaining.standing import standings
from scheduler.engine.keeping.bookings import within_bookings
from scheduler.engine.keeping.calendar import keep_calendar
from scheduler.engine.keeping.timeline import reservations_of, timeline_of
from scheduler.engine.ordering import order_waiting
from scheduler.engine.packing.scoring import packing_for
from scheduler.engine.plan import Plan, Verdict
from scheduler.engine.policy import DEFAULT_POLICY, Policy
from scheduler.engine.preempting.claiming import is_claimant, settle_claims
from scheduler.engine.preempting.resizing import grow_jobs
from scheduler.engine.preempting.room import make_room
from scheduler.engine.reservation import Head
from scheduler.engine.sharing.fairshare import Line, LineUps
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import Classes, Snapshot, classes_of, flags, ints


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A plan, and what it was decided on: the board as the admission left it."""

    plan: Plan
    board: Board
    classes: Classes
    ruled_out: Mapping[int, Verdict]
    heads: Mapping[int, Sequence[Head]]
    gate: Gate


class Known:
    """What was found out by one who decides many times about one cluster, which changes in who
    waits alone.

    `is_sound`: the cluster was looked at, and changes do not spoil it.
    """

    def __init__(self) -> None:
        self.is_sound = False
        self.line_ups = LineUps()
        self.boards = Boards()


def plan_cycle(
    snapshot: Snapshot, policy: Policy = DEFAULT_POLICY, known: Known | None = None
) -> Plan:
    """Say of every waiting job where it starts or why it waits. Raises SnapshotInvalid."""
    return decide(snapshot, policy, known).plan


def decide(
    snapshot: Snapshot, policy: Policy = DEFAULT_POLICY, known: Known | None = None
) -> Decision:
    """The plan and its grounds; `known` is of others on this cluster. Raises SnapshotInvalid.

    1. Refuse a snapshot that contradicts itself.
    2. Set aside the jobs that others are making room for: they start there or wait for just that.
    3. Where the policy rearranges: choose anew who runs; go on with the cluster as it will be then.
    4. Group equal requests into classes.
    5. Rule out the classes that cannot start whatever becomes free.
    6. Put the jobs in order: tier, then the order of their pool, then age.
    7. Admit them in this order, gangs whole, as far as their accounts may. Where the policy
       preempts, a job that does not fit may stop others of lower tiers; else room is kept for a
       head whose patience ran out.
    8. Give each of the others its one reason.
    9. If the policy resizes: where nobody waits, let elastic jobs have more nodes if that pays.
    """
    _check(snapshot, known)
    snapshot = within_bookings(snapshot, policy.backfill_slack_s)
    claimed = is_claimant(snapshot.waiting, snapshot.claims.job)
    claimants, snapshot = snapshot.waiting.take(claimed), snapshot.only(np.flatnonzero(~claimed))
    room = make_room(snapshot, policy)
    after = room.snapshot
    board = _board_of(after, policy, known)
    settled = settle_claims(board, claimants)
    board.packers |= packing_for(policy, board)
    classes = classes_of(after.waiting)
    ruled_out = rule_out(board, classes)
    turns = None if known is None else known.line_ups
    line = Line(after, policy, order_waiting(after, policy), turns)
    gate = Gate(after)
    gate.keep_for(claimants)
    admission = Admission(board, classes, line, gate, policy)
    admission.place(room.placed)
    admission.admit(ruled_out)
    left = line.order[line.line_up(ints(np.flatnonzero(~admission.is_started)))]
    # Who is being stopped does not wait yet.
    left = left[left < len(snapshot.waiting)]
    waits = explain_waits(board, classes, left, ruled_out, admission.heads.by_pool, gate)
    stood = standings(after, classes, policy, line.order, admission.is_started, ruled_out)
    kept = reservations_of(after, admission.heads.by_pool)
    starts = (*settled.starts, *admission.starts)
    cleared = admission.clearer
    stops, resizes = (*room.stops, *cleared.stops), (*room.resizes, *cleared.resizes)
    crowded = flags(np.bincount(after.waiting.pool[left], minlength=len(after.pools)))
    # Running as before: once room is made, nobody who may be stopped is listed any more.
    resizes += grow_jobs(board, snapshot.running, policy, crowded, (*stops, *resizes), gate)
    slots = timeline_of(board, admission.starts, admission.started)
    plan = Plan(starts, stops, settled.waits.join(waits), kept, stood, resizes, slots)
    return Decision(plan, board, classes, ruled_out, admission.heads.by_pool, gate)


def _check(snapshot: Snapshot, known: Known | None) -> None:
    if known is None or not known.is_sound:
        check_snapshot(snapshot)
    if known is not None:
        known.is_sound = True


def _board_of(snapshot: Snapshot, policy: Policy, known: Known | None) -> Board:
    def make() -> Board:
        board = Board(snapshot)
        board.keeping.slack_s = policy.backfill_slack_s
        keep_calendar(board)
        return board

    if known is None:
        return make()
    return known.boards.of(snapshot, policy.backfill_slack_s, make)
