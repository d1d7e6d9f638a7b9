"""After the database was put back, nothing starts before every node has said what it runs.

A job that waits in the copy may have been started since, and run on a node that does not call yet;
one that ran then may have been tried again elsewhere. Nodes stop what this database does not know
as soon as they hear from it, and say so. Until all have, or were given up as lost, a start could
run a job beside itself.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, Q

from accounts.services.audit import Subject, record
from scheduler import events
from scheduler.models import Attempt, Delivery, Job, Node, OutputFile, Placement
from scheduler.services.history import record_node_event, tell_of_node
from scheduler.services.nodes.assignments import open_placements
from scheduler.services.rows.numbering import raise_numbers
from scheduler.states import AttemptState, NodeState
from scheduler.wire.messages import SyncRequest

_DATABASE = Subject("database", label="a copy of the database, put back")
# More than were given since any copy that somebody would put back.
_JUMP = 1_000_000


@transaction.atomic
def begin_recount(*, now: datetime) -> int:
    """Call it on a database that was put back, before a server uses it; returns how many nodes have
    to be heard.

    1. Attempts, jobs, files and calls of webhooks are numbered above all that were handed out since
       the copy: a node never starts a number twice, no job finds another's checkpoints and files
       under its own, and no receiver takes a call for one that it has had.
    2. So are the revisions of what nodes should run. One that has seen a revision from here on has
       heard what this database wants of it, and what it says then counts.
    3. Each has from now on the time that one has which has just been heard.
    """
    for model in (Attempt, Job, OutputFile, Delivery):
        raise_numbers(model, _JUMP)
    count = Node.objects.exclude(state=NodeState.RETIRED).update(
        desired_revision=F("desired_revision") + _JUMP,
        counts_from=F("desired_revision") + _JUMP,
        last_seen_at=now,
    )
    record(None, "node.recount", _DATABASE, after={"nodes": count}, now=now)
    return count


def take_count(node: Node, request: SyncRequest, *, now: datetime) -> None:
    """A node that is waited for has spoken; it counts once nothing unknown is alive there.

    What it was told of since and does not report ended there after the copy was made, and its agent
    is too old to say so: it is left behind.
    """
    if node.counts_from is None or request.seen_revision < node.counts_from:
        return
    alive = {one.fence for one in request.reports if one.state is not AttemptState.ENDED}
    given = Placement.objects.filter(node=node, attempt__in=alive)
    if alive - set(given.values_list("attempt_id", flat=True)):
        return
    if Node.objects.filter(pk=node.pk, counts_from=node.counts_from).update(counts_from=None):
        told = open_placements().filter(Q(rank=0) | ~Q(reported=""), node=node)
        told = told.exclude(attempt__in=[report.fence for report in request.reports])
        told.filter(left_since__isnull=True).update(left_since=now)
        node.counts_from = None
        record_node_event(node, "counted", now=now)
        tell_of_node(node.pk)
        events.wake_scheduler_on_commit()
