"""The one call a node makes: heartbeat, reports, samples in; the complete desired state out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import connection, transaction
from django.utils import timezone

from scheduler import events
from scheduler.failpoints import reach
from scheduler.models import Attempt, Node
from scheduler.services import transitions
from scheduler.services.errors import Invalid, NotFound
from scheduler.services.history import record_node_event, tell_of_node
from scheduler.services.nodes.data import store_data
from scheduler.services.nodes.health import (
    heed_own_trouble,
    judge_clock,
    judge_isolation,
    take_checks,
    take_troubles,
)
from scheduler.services.nodes.identity import (
    AttemptOfAnother,
    admit_machine,
    judge_identity,
    shut_out,
)
from scheduler.services.nodes.inventory import store_devices, store_host
from scheduler.services.nodes.left_behind import note_left_behind
from scheduler.services.nodes.orders import Asked, current_reply, known_to, replies_at
from scheduler.services.nodes.quarantine import out_for_maintenance
from scheduler.services.nodes.recounting import take_count
from scheduler.services.reports import report_attempts
from scheduler.services.rows.locking import lock_devices_of
from scheduler.services.rows.updating import update_row_reading
from scheduler.services.telemetry import ingest_samples
from scheduler.states import NodeState
from scheduler.wire.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    AttemptReport,
    SyncReply,
    SyncRequest,
)

# The highest that a row can hold.
_MOST_PROTOCOL = 32_767


def sync_node(*, node: Node, request: SyncRequest, now: datetime | None = None) -> SyncReply | None:
    """Take in what the node says and answer with what it should run.

    None: there is nothing that the node has not seen, and it is willing to wait for news.

    1. Heartbeat: the node is heard, a second machine with its identity is not; a silent or lost
       node comes back. Of what an earlier instance was given and this one does not know, it is
       told nothing.
    2. Inventory, when it came along.
    3. What is wrong with it, before devices are given back.
    4. Reports, each a no-op when it is old news.
    5. Samples; they may be lost, so they come last.
    """
    now = now or timezone.now()
    if not OLDEST_PROTOCOL <= request.protocol <= PROTOCOL:
        raise _foreign_tongue(node, request, now)
    admit_machine(node, request, now=now)
    try:
        forget = _take_in(node, request, now)
    except AttemptOfAnother as refused:
        shut_out(node, refused, now)
        raise
    reach("portal.reports-committed")
    if not forget and request.hold_s > 0 and node.desired_revision == request.seen_revision:
        return None
    # What it said of its devices may have changed the node's own row.
    is_as_read = request.troubles is None and request.devices is None and not request.checks
    known = known_to(request)
    if is_as_read:
        return replies_at([Asked(node, forget, known)], now=now)[0]
    return current_reply(node, forget, known=known, now=now)


def _foreign_tongue(node: Node, request: SyncRequest, now: datetime) -> Invalid:
    """What such an agent is told. It ends then, so its node's history says why nobody is heard."""
    words = f"This server speaks protocols {OLDEST_PROTOCOL} to {PROTOCOL}"
    spoken = {
        "agent_version": request.agent_version[:32],
        "protocol": max(0, min(request.protocol, _MOST_PROTOCOL)),
    }
    with transaction.atomic():
        if Node.objects.filter(pk=node.pk).exclude(**spoken).update(**spoken):
            detail = "its agent is {agent_version} and speaks protocol {protocol}".format(**spoken)
            record_node_event(node, "agent_refused", now=now, detail=f"{detail}. {words}")
            tell_of_node(node.pk)
    return Invalid(
        f"{words}; install an agent of this server's version.",
        field="protocol",
        code="protocol_unsupported",
    )


@transaction.atomic
def _take_in(node: Node, request: SyncRequest, now: datetime) -> set[int]:
    """Steps 1 to 5; the fences that the node may forget."""
    forget: set[int] = set()
    _lock_reported(node, request.reports)
    judge_identity(node, request, now=now)
    note_left_behind(node, request)
    _hear(node, request, now)
    if request.troubles is not None:
        take_troubles(node, request.troubles, now=now)
    if request.checks:
        take_checks(node, request.checks, now=now)
    _take_inventory(node, request, now)
    if request.reports:
        forget = report_attempts(
            node=node,
            reports=request.reports,
            now=now,
            clock_ahead_s=request.sent_at - now.timestamp(),
        )
    take_count(node, request, now=now)
    ingest_samples(node=node, request=request, now=now)
    reach("portal.reports-taken")
    return forget


def _lock_reported(node: Node, reports: Sequence[AttemptReport]) -> None:
    """Lock the attempts that are this node's, and its devices, before its own row is written.

    A stop locks its attempt and then the nodes, a start the devices: the other way round the two
    may stand opposite each other for ever.
    """
    if connection.features.has_select_for_update:
        fences = {report.fence for report in reports}
        here = Attempt.objects.filter(pk__in=fences, placements__node=node)
        list(here.select_for_update(of=("self",)).order_by("pk").values("pk"))
        lock_devices_of([node.pk])


def _take_inventory(node: Node, request: SyncRequest, now: datetime) -> None:
    """What the machine is and has, as far as it came along."""
    if request.host is not None:
        store_host(node, request.host)
    if request.data is not None:
        store_data(node, request.data)
    judge_isolation(node, now=now)
    if request.devices is not None:
        store_devices(node, request.devices, now=now)
        events.wake_scheduler_on_commit()


def _hear(node: Node, request: SyncRequest, now: datetime) -> None:
    """The heartbeat's row; `node` is afterwards as the row is, in what the reply rests on."""
    skew = request.sent_at - now.timestamp()
    heard = {
        "last_seen_at": now,
        "boot_id": request.boot_id[:64],
        "agent_id": request.agent_id[:64],
        "agent_version": request.agent_version[:32],
        "protocol": request.protocol,
        "clock_skew_s": max(-1e9, min(1e9, skew)),
    }
    row = update_row_reading(Node, node.pk, heard, ("desired_revision", "state", "has_checks"))
    if row is None:
        raise NotFound("This node is no longer known.")
    node.desired_revision, node.state, node.has_checks = int(row[0]), str(row[1]), bool(row[2])
    node.protocol = request.protocol
    if node.state in (NodeState.SILENT, NodeState.LOST):
        # It may have been drained since its token was looked up.
        fields = ["drain_requested_at", "trouble", "own_trouble", "state_reason"]
        node.refresh_from_db(fields=fields)
        back, reason = _way_back(node)
        transitions.move_node(node, back, now=now, kind="heard_again", reason=reason)
        # What it says anew is taken in in a moment.
        if request.troubles is None:
            heed_own_trouble(node, now=now)
    judge_clock(node, skew, now=now)


def _way_back(node: Node) -> tuple[NodeState, str]:
    """The state of a node that is heard again, and why it is not ready: as before its silence."""
    kinds: tuple[str, ...]
    if node.trouble:
        back, kinds = NodeState.QUARANTINED, ("node_quarantined", "quarantine")
    elif node.drain_requested_at or out_for_maintenance([node.pk]):
        back, kinds = NodeState.DRAINING, ("drain",)
    else:
        return NodeState.READY, ""
    event = node.events.filter(kind__in=kinds).order_by("-pk").first()
    return back, event.detail.get("reason", "") if event else node.state_reason
