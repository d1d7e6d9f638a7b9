"""Calls of nodes that wait for each other, taken in with one transaction.

A database does the work of one call after the other anyway: SQLite has one writer, and PostgreSQL
waits for the disk at each end. Many together cost little more than one. Only plain calls are put
together, which say what every call of a healthy node says; the others go alone, and so do all of
them when one is refused: nobody's call depends on what another node sends.

The rows of nodes are written last, in the order of their ids, after those of attempts, jobs and
devices: in the same order as by starts and stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from scheduler.failpoints import reach
from scheduler.models import Attempt, Node
from scheduler.services.gathering import Step, afterwards, gathering
from scheduler.services.history import lock_nodes
from scheduler.services.nodes.health import CLOCK_OFF_S
from scheduler.services.nodes.orders import Asked, known_to, replies_at
from scheduler.services.nodes.quarantine import out_for_maintenance
from scheduler.services.reports import Told, report_together
from scheduler.services.rows.locking import lock_devices_of
from scheduler.services.rows.updating import update_rows_reading
from scheduler.services.sync import sync_node
from scheduler.services.telemetry import ingest_samples
from scheduler.services.transitions import move_nodes
from scheduler.states import NodeState, is_enough
from scheduler.wire.messages import SyncReply, SyncRequest

_GONE = (NodeState.SILENT, NodeState.LOST)
_BACK = {"trouble": "", "own_trouble__isnull": True, "drain_requested_at__isnull": True}
_HEARD = ("desired_revision", "state", "has_checks", "boot_id", "agent_id")


@dataclass(frozen=True, slots=True)
class Call:
    """What a node says, and when that came; `node` as its token was looked up."""

    node: Node
    request: SyncRequest
    heard_at: datetime

    @property
    def ahead_s(self) -> float:
        """The node's clock less the server's."""
        return self.request.sent_at - self.heard_at.timestamp()


# As `sync_node` answers, or what it raises.
Answer = SyncReply | Exception | None


class _NotPlain(Exception):
    """A node is not as it was when its token was looked up."""


def sync_nodes(calls: Sequence[Call], *, now: datetime | None = None) -> list[Answer]:
    """`sync_node` for each call, an exception in the place of what it raises.

    Equals one after the other, but for what `report_together` leaves out. Of a node's calls the
    first comes first. A database that is away or busy is so for all that were put together.
    """
    now = now or timezone.now()
    answers: dict[int, Answer] = {}
    # A node's two calls often come together: the one that it holds, and one with news.
    heard_alone: set[int] = set()
    left = dict(enumerate(calls))
    while left:
        # Of each node the next one: later ones of the same node come first here, and are replaced.
        turn = {call.node.pk: place for place, call in reversed(left.items())}
        places = sorted(turn.values())
        plain = [
            place
            for place in places
            if left[place].node.pk not in heard_alone and _is_plain(left[place])
        ]
        answers |= zip(plain, _together([left[place] for place in plain], now), strict=False)
        for place in places:
            call = left.pop(place)
            if place not in answers:
                heard_alone.add(call.node.pk)
                answers[place] = _alone(call, now)
    return [answers[place] for place in range(len(calls))]


def _is_plain(call: Call) -> bool:
    """Whether only steps 1, 4 and 5 of `sync_node` have anything to do, and the first no more than
    to note that the node was heard, after a silence perhaps."""
    node, said = call.node, call.request
    is_same = (
        node.rival is None
        and node.counts_from is None
        and node.last_seen_at is not None
        and (node.boot_id, node.agent_id) == (said.boot_id, said.agent_id)
        and (node.protocol, node.agent_version) == (said.protocol, said.agent_version)
    )
    is_well = (
        node.state != NodeState.LOST
        and not (node.state == NodeState.SILENT and node.drain_requested_at)
        and not (node.trouble or node.own_trouble)
        and abs(call.ahead_s) <= CLOCK_OFF_S
        and is_enough(node.isolation, node.pool.isolation)
    )
    says_no_more = said.troubles is None and not said.checks
    says_no_more &= said.host is None and said.devices is None and said.data is None
    return is_same and is_well and says_no_more


def _together(calls: Sequence[Call], now: datetime) -> Sequence[Answer]:
    """An answer for each; none at all where somebody has to be heard alone."""
    if not calls:
        return ()
    try:
        forget = _take_in(calls, now)
    except (OperationalError, InterfaceError) as error:
        return [error] * len(calls)
    except Exception:
        # Each alone tells whose fault it was.
        return ()
    reach("portal.reports-committed")
    asked = [
        Asked(call.node, over, known_to(call.request))
        for call, over in zip(calls, forget, strict=True)
        if over or call.request.hold_s <= 0 or _has_news(call)
    ]
    replies = {
        one.node.pk: reply for one, reply in zip(asked, replies_at(asked, now=now), strict=True)
    }
    return [replies.get(call.node.pk) for call in calls]


def _has_news(call: Call) -> bool:
    return call.node.desired_revision != call.request.seen_revision


@transaction.atomic
def _take_in(calls: Sequence[Call], now: datetime) -> list[set[int]]:
    """The fences that each node may forget."""
    told = [Told(one.node, one.request.reports, one.heard_at, one.ahead_s) for one in calls]
    _welcome_back(calls, now)
    with gathering():
        forget = report_together(told, now=now)
        for call in calls:
            ingest_samples(node=call.node, request=call.request, now=now)
        afterwards(Step.LOCK_NODES, lock_nodes, [call.node.pk for call in calls])
        afterwards(Step.HEAR_NODES, _hear, calls, now=now)
    reach("portal.reports-taken")
    return forget


def _welcome_back(calls: Sequence[Call], now: datetime) -> None:
    """Nodes that were silent are ready again, before what they report is taken in.

    Raises _NotPlain where one of them is no more as its token was looked up.
    """
    back = {call.node.pk for call in calls if call.node.state == NodeState.SILENT}
    if not back:
        return
    if out_for_maintenance(back):
        raise _NotPlain
    if connection.features.has_select_for_update:
        # In the order of starts and stops: attempts, devices, then all nodes that this writes.
        fences = [report.fence for call in calls for report in call.request.reports]
        reported = Attempt.objects.filter(pk__in=fences).select_for_update(of=("self",))
        list(reported.order_by("pk").values("pk"))
        lock_devices_of([call.node.pk for call in calls])
        lock_nodes([call.node.pk for call in calls])
    silent = Node.objects.filter(pk__in=list(back), state=NodeState.SILENT, **_BACK)
    if move_nodes(silent, NodeState.READY, now=now, kind="heard_again") != back:
        raise _NotPlain


def _hear(calls: Sequence[Call], *, now: datetime) -> None:
    """As `sync_node` notes it of each; raises _NotPlain."""
    heard = sorted((call.node.pk, (now, call.ahead_s)) for call in calls)
    rows = update_rows_reading(Node, ("last_seen_at", "clock_skew_s"), heard, _HEARD)
    for call in calls:
        node = call.node
        revision, state, has_checks, *speaker = rows.get(node.pk, (0, NodeState.LOST, False))
        if state in _GONE or speaker != [node.boot_id, node.agent_id]:
            raise _NotPlain
        node.desired_revision, node.state, node.has_checks = revision, state, bool(has_checks)


def _alone(call: Call, now: datetime) -> Answer:
    try:
        return sync_node(node=call.node, request=call.request, now=now)
    except Exception as error:
        return error
