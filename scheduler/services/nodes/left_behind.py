"""What an earlier instance of a node was given, and who speaks there now does not know.

What is left on a retired node is the same: nobody speaks there at all; and what an agent forgot
after the copy was made that the database was put back to.

An agent keeps what it accepted in its spool, so one that is started again knows it, and says how it
ended. One that does not is a copy from before, or has lost its spool. Told anew it would start a
program that may still run where the earlier instance is; told to stop it would call ended what it
never had. So it is told nothing of it. The rank keeps its devices until whoever guards its program
has ended that, as on a node that is lost, counted from when the earlier instance was heard last.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce

from accounts.statements import AskedOnce
from scheduler.conf import load_conf
from scheduler.models import Allocation, Node, Placement
from scheduler.services.attempts import abandon_placements, locked_live_attempt
from scheduler.services.nodes.assignments import open_placements
from scheduler.services.rows.locking import lock_node
from scheduler.services.timeline.clock import CLOCK
from scheduler.services.timeline.patience import GRACES
from scheduler.states import EndReason, NodeState
from scheduler.wire.messages import SyncRequest

_UNGUARDED = Q(left_since__isnull=False) | Q(node__state=NodeState.RETIRED)
# A call is held for 20 s at most; then its answer is on its way.
_ANSWERED_S = 30


def note_left_behind(node: Node, request: SyncRequest) -> None:
    """Call before `node` is heard: does another instance speak, and what does it not know?

    After a start of the machine that is all that the one before may have been told, and it does not
    report. A new agent of the same start may have been asked for what the one before it had no time
    to accept; what that one has reported lay in its spool.
    """
    if _is_same(node, request) or node.last_seen_at is None:
        return
    before = Node.objects.select_for_update().get(pk=node.pk)
    # Both calls of a new instance come at once, and the second may have read the row before.
    # Enrolled and not heard yet, perhaps before a start of the machine: whoever speaks is the
    # first, and nobody was told anything. Later enrolments keep the name of who spoke last.
    if not before.agent_id or _is_same(before, request):
        return
    here = open_placements().filter(node=node)
    known = Q(attempt__in=[report.fence for report in request.reports])
    here.filter(known, left_since__isnull=False).update(left_since=None)
    given = here.exclude(known).filter(left_since__isnull=True)
    unheard_of = Q(reported="")
    if before.boot_id != request.boot_id[:64]:
        unheard_of &= _untold(before) | Q(pk__in=_on_own_cards(given, request))
    given.exclude(unheard_of).update(left_since=before.last_seen_at)


def _untold(before: Node) -> Q:
    """What the earlier instance cannot have been told: later than the answer to its last call, or a
    rank whose first one has not named a port."""
    assert before.last_seen_at is not None
    answered = before.last_seen_at + timedelta(seconds=_ANSWERED_S)
    return Q(attempt__assigned_at__gt=answered) | Q(rank__gt=0, attempt__master_port__isnull=True)


def _on_own_cards(given: QuerySet[Placement], request: SyncRequest) -> set[int]:
    """Ranks whose real cards are in the machine that speaks: it is the same one, started again, and
    nothing of before it runs."""
    here = {facts.uuid for facts in request.devices or () if not facts.simulated}
    held: dict[int, bool] = {}
    holds = Allocation.objects.filter(placement__in=given, released_at__isnull=True)
    cards = ("placement_id", "device__uuid", "device__parent__uuid")
    for placement, uuid, parent in holds.values_list(*cards):
        held[placement] = held.get(placement, True) and bool(here & {uuid, parent})
    return {placement for placement, is_here in held.items() if is_here}


def give_up_left_behind(*, now: datetime) -> int:
    """End ranks that nobody has guarded any more for so long that their programs are gone."""
    conf = load_conf()
    left = open_placements().filter(_UNGUARDED)
    left = left.annotate(since=Coalesce("left_since", "node__last_seen_at"))
    due = left.filter(CLOCK.older_than("since", conf.lost_after, now=now))
    count = 0
    for placement_id, fence, since, asked_s, stop_s in due.order_by("pk").values_list(
        "pk", "attempt_id", "since", *GRACES
    ):
        if CLOCK.age(since, now) > conf.lost_after_grace(asked_s or 0, stop_s):
            with transaction.atomic():
                count += _give_up(placement_id, fence, now)
    return count


def give_up_untold(*, now: datetime) -> int:
    """End ranks on nodes that were enrolled and never heard: no agent there was told of them.

    It may be started with the next breath, so they have as long as one that is heard.
    """
    deadline = timedelta(seconds=load_conf().start_deadline_s)
    count = 0
    for placement_id, fence, node_id in _UNTOLD.read(now - deadline):
        with transaction.atomic():
            lock_node(node_id)
            attempt = locked_live_attempt(fence)
            mine = _on_unheard(now).filter(pk=placement_id).first()
            if attempt is not None and mine is not None:
                words = "the node was enrolled, and its agent never heard"
                abandon_placements(attempt, [mine], EndReason.NODE_LOST, words, now)
                count += 1
    return count


def _on_unheard(assigned_before: datetime) -> QuerySet[Placement]:
    here = open_placements().filter(node__agent_id="", attempt__assigned_at__lt=assigned_before)
    gone = (NodeState.LOST, NodeState.RETIRED)
    return here.exclude(node__state__in=gone).select_related("node")


def _untold_before(assigned_before: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    return _on_unheard(assigned_before).order_by("pk").values_list("pk", "attempt_id", "node_id")


_UNTOLD = AskedOnce(_untold_before)


def _give_up(placement_id: int, fence: int, now: datetime) -> bool:
    attempt = locked_live_attempt(fence)
    if attempt is None:
        return False
    rows = Placement.objects.select_related("node").filter(pk=placement_id, ended_at__isnull=True)
    mine = rows.filter(_UNGUARDED).first()
    if mine is None:
        return False
    is_retired = mine.node.state == NodeState.RETIRED
    words = "the node was retired" if is_retired else "who speaks for this node does not know it"
    abandon_placements(attempt, [mine], EndReason.NODE_LOST, words, now)
    return True


def _is_same(node: Node, request: SyncRequest) -> bool:
    boot = node.boot_id or request.boot_id[:64]
    return (boot, node.agent_id) == (request.boot_id[:64], request.agent_id[:64])
