"""What time alone brings about: silent and lost nodes, deadlines, drains that are done.

Each function costs one query when nothing is due. Who is to be stopped is looked at once more under
the lock: what it is stopped for may be over by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from accounts.statements import AskedOnce
from scheduler.conf import load_conf
from scheduler.models import Attempt, Node, NodeEvent, Placement
from scheduler.services import transitions
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.rows.locking import lock_node
from scheduler.services.stopping import request_stop
from scheduler.services.timeline.clock import CLOCK
from scheduler.services.timeline.patience import patience_with
from scheduler.states import UNHEARD_NODES, AttemptState, EndReason, NodeState, Trouble

_HEARD = (NodeState.READY, NodeState.DRAINING, NodeState.DRAINED, NodeState.QUARANTINED)
# Of nodes that fall silent together, moved with one transaction: other writers wait for it.
_AT_ONCE = 64
# The supervisor on the node keeps the time limit; this is for the case that it cannot.
_LIMIT_SLACK_S = 60
# A kill that has not worked for so long will not.
_UNSTOPPABLE_S = 90


def mark_silent(*, now: datetime) -> int:
    """Nodes whose lease ran out become SILENT; their devices stay held."""
    lease = load_conf().node_lease
    unheard = Node.objects.filter(
        CLOCK.older_than("last_seen_at", lease, now=now), state__in=_HEARD
    )
    reason = f"nothing heard for {int(lease.total_seconds())} s"
    due = list(unheard.order_by("pk").values_list("pk", flat=True))
    count = 0
    for first in range(0, len(due), _AT_ONCE):
        # Who was heard since is none of them any more.
        still = unheard.filter(pk__in=due[first : first + _AT_ONCE])
        with transaction.atomic():
            moved = transitions.move_nodes(
                still, NodeState.SILENT, now=now, kind="silent", reason=reason
            )
        count += len(moved)
    return count


def mark_lost(*, now: datetime) -> int:
    """Silent nodes past the point where their own supervisors have killed everything: LOST.

    A job there may have asked to run on for longer without the server, or to stop in; then they
    wait for that. They have been silent for a lease as well, by this clock alone: a node that calls
    is so never lost because the server that heard it has another clock. After a restore nobody
    waits for a lost node any more, nor for one that was lost in the copy and does not call for as
    long.
    """
    conf = load_conf()
    count = 0
    unheard = CLOCK.older_than("last_seen_at", conf.lost_after, now=now)
    just_silent = NodeEvent.objects.filter(
        ~CLOCK.older_than("at", conf.node_lease, now=now), node=OuterRef("pk"), kind="silent"
    )
    silent = ~Exists(just_silent) & Q(state=NodeState.SILENT)
    uncounted = Q(state=NodeState.LOST, counts_from__isnull=False)
    due = list(Node.objects.filter(unheard, silent | uncounted))
    if not due:
        return 0
    patience = patience_with(Placement.objects.filter(node__in=due, ended_at__isnull=True))
    for node in due:
        after = patience.get(node.pk, conf.lost_after)
        if node.last_seen_at is None or CLOCK.age(node.last_seen_at, now) <= after:
            continue
        if node.state == NodeState.LOST:
            # One that has called meanwhile tells by itself what runs there.
            still = Node.objects.filter(unheard, pk=node.pk, state=NodeState.LOST)
            count += still.update(counts_from=None)
            continue
        with transaction.atomic():
            lock_node(node.pk)
            if not transitions.move_node(
                node,
                NodeState.LOST,
                now=now,
                kind="lost",
                reason="its lease is long over",
                counts_from=None,
            ):
                continue
            count += 1
            give_up_attempts_on(node, now)
    return count


def give_up_attempts_on(node: Node, now: datetime) -> None:
    """What ran on a lost node ends there; call it in the transaction that lost it."""
    open_on_node = Placement.objects.filter(node=node, ended_at__isnull=True)
    for attempt_id in open_on_node.order_by("attempt_id").values_list("attempt_id", flat=True):
        attempt = locked_live_attempt(attempt_id)
        if attempt is not None:
            abandon_placements(
                attempt,
                attempt.placements.filter(node=node).select_related("node"),
                EndReason.NODE_LOST,
                "the node was lost",
                now,
            )


def finish_drains(*, now: datetime) -> int:
    """Draining nodes on which nothing is left become DRAINED."""
    count = 0
    for node in _IDLE.read():
        with transaction.atomic():
            lock_node(node.pk)
            # It may have been resumed and drained anew, with a job between.
            if still := _idle().filter(pk=node.pk).first():
                count += transitions.move_node(
                    still, NodeState.DRAINED, now=now, kind="drained", reason=still.state_reason
                )
    return count


def _idle() -> QuerySet[Node]:
    busy = Placement.objects.filter(node=OuterRef("pk"), ended_at__isnull=True)
    return Node.objects.filter(~Exists(busy), state=NodeState.DRAINING)


_IDLE = AskedOnce(_idle)


def revoke_unaccepted(*, now: datetime) -> int:
    """Assignments that their node has not taken up in time are taken back.

    The node is asked to stop them and the devices stay held until it has answered: it may have
    been told at the last moment, and its word of that may be under way. A node that was silent has
    the whole time once more when it is heard again, or its program would be ended as it begins.
    """
    overdue = _unaccepted(now).order_by("attempt_id").values_list("attempt_id", flat=True)
    return sum(_revoke(attempt_id, now) for attempt_id in dict.fromkeys(overdue))


@transaction.atomic
def _revoke(attempt_id: int, now: datetime) -> bool:
    attempt, still = locked_live_attempt(attempt_id), _unaccepted(now).filter(attempt=attempt_id)
    if attempt is None or not still.exists():
        return False
    # The others wait for rank 0 to name its port.
    slow = still if attempt.master_port else attempt.placements.filter(rank=0)
    ranks = list(slow.select_related("node").order_by("rank"))
    return request_stop(attempt=attempt, reason=EndReason.START_TIMEOUT, now=now, because_of=ranks)


def _unaccepted(now: datetime) -> QuerySet[Placement]:
    conf = load_conf()
    deadline = timedelta(seconds=conf.start_deadline_s)
    just_back = NodeEvent.objects.filter(
        ~CLOCK.older_than("at", deadline, now=now), node=OuterRef("node"), kind="heard_again"
    )
    assigned = "attempt__assigned_at"
    return (
        Placement.objects.filter(
            CLOCK.older_than(assigned, deadline, now=now),
            reported="",
            ended_at__isnull=True,
            # Nobody who speaks there could give its devices back.
            left_since__isnull=True,
            attempt__state__in=(AttemptState.ASSIGNED, AttemptState.STARTING),
        )
        # One that comes and goes all the time is not waited for for ever.
        .filter(
            ~Exists(just_back) | CLOCK.older_than(assigned, deadline + conf.lost_after, now=now)
        )
        # A silent node cannot answer; that is for `mark_lost`.
        .exclude(node__state__in=(NodeState.SILENT, NodeState.LOST))
    )


def quarantine_unstoppable(*, now: datetime) -> int:
    """Nodes that are heard and yet do not end what they were asked to stop get no more work."""
    count = 0
    asked_before = now - timedelta(seconds=_UNSTOPPABLE_S)
    for placement in _STUCK.read(asked_before):
        if not _had_its_time(placement.attempt, now):
            continue
        with transaction.atomic():
            lock_node(placement.node_id)
            # It may have ended at last, or been given more time.
            still = _asked_before(asked_before).filter(pk=placement.pk).first()
            if still is None or not _had_its_time(still.attempt, now):
                continue
            count += transitions.move_node(
                still.node,
                NodeState.QUARANTINED,
                now=now,
                kind="node_quarantined",
                reason=f"it was asked to stop job #{still.attempt.job_id} and does not",
                # Kept over a silence, from which a node without a trouble returns by itself.
                trouble=Trouble.DOES_NOT_STOP,
            )
    return count


def _had_its_time(attempt: Attempt, now: datetime) -> bool:
    waited = CLOCK.age(attempt.stopping_at or now, now)
    return waited >= timedelta(seconds=attempt.stop_grace_s + _UNSTOPPABLE_S)


def _asked_before(when: datetime) -> QuerySet[Placement]:
    stuck = Placement.objects.filter(
        ended_at__isnull=True,
        left_since__isnull=True,
        attempt__state=AttemptState.STOPPING,
        attempt__stopping_at__lt=when,
        node__state=NodeState.READY,
    )
    return stuck.select_related("node", "attempt").order_by("pk")


_STUCK = AskedOnce(_asked_before)


def stop_overdue(*, now: datetime) -> int:
    """Attempts far beyond their time limit are asked to stop by the server too.

    Not where a node is silent: it keeps the limit itself and tells so once it is heard. Asked for
    now, the stop would be the end of a job whose node died long before, at its own cost.
    """
    long = _LONG.read(now - timedelta(seconds=_LIMIT_SLACK_S))
    over = [pk for pk, started_at, limit_s in long if _has_overrun(started_at, limit_s, now)]
    heard = _where_all_are_heard(over) if over else ()
    return sum(_stop_if_overdue(attempt_id, now) for attempt_id in heard)


def _where_all_are_heard(attempts: Sequence[int]) -> list[int]:
    unheard = Placement.objects.filter(
        attempt__in=attempts, ended_at__isnull=True, node__state__in=UNHEARD_NODES
    )
    silent = set(unheard.values_list("attempt_id", flat=True))
    return [attempt_id for attempt_id in attempts if attempt_id not in silent]


@transaction.atomic
def _stop_if_overdue(attempt_id: int, now: datetime) -> bool:
    attempt = locked_live_attempt(attempt_id)
    return (
        attempt is not None
        and attempt.started_at is not None
        and _has_overrun(attempt.started_at, attempt.job.time_limit_s, now)
        and bool(_where_all_are_heard([attempt_id]))
        and request_stop(attempt=attempt, reason=EndReason.TIME_LIMIT, now=now)
    )


def _has_overrun(started_at: datetime, limit_s: int, now: datetime) -> bool:
    return CLOCK.age(started_at, now) >= timedelta(seconds=limit_s + _LIMIT_SLACK_S)


def _running_since(before: datetime) -> QuerySet[Attempt, tuple[Any, ...]]:
    running = Attempt.objects.filter(state=AttemptState.RUNNING, started_at__lt=before)
    return running.order_by().values_list("pk", "started_at", "job__time_limit_s")


_LONG = AskedOnce(_running_since)
