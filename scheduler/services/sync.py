"""The one call a node makes: heartbeat, reports, samples in; the complete desired state out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from scheduler import events
from scheduler.conf import load_conf
from scheduler.failpoints import reach
from scheduler.models import Allocation, Attempt, Job, Node, Placement
from scheduler.services import transitions
from scheduler.services.errors import Invalid
from scheduler.services.nodes.health import (
    due_checks,
    judge_clock,
    judge_isolation,
    take_checks,
    take_troubles,
)
from scheduler.services.nodes.inventory import store_devices, store_host
from scheduler.services.reports import report_attempts
from scheduler.services.telemetry import ingest_samples
from scheduler.spec import JobSpec
from scheduler.spec.values import WHOLE_MILLI
from scheduler.states import LIVE_ATTEMPT_STATES, PAUSES, AttemptState, EndReason, NodeState
from scheduler.wire.messages import (
    OLDEST_PROTOCOL,
    PROTOCOL,
    Assignment,
    Checkpoint,
    Code,
    Launch,
    StopOrder,
    SyncReply,
    SyncRequest,
)

_GRANTED = tuple(f"device__{name}" for name in "uuid slot parent__uuid milli memory_mib".split())


@dataclass(slots=True)
class _Grant:
    """The devices of a placement as its node knows them; of slots it knows their card alone."""

    uuids: list[str] = field(default_factory=list)
    milli: int = WHOLE_MILLI
    memory_mib: int = 0

    def add(self, uuid: str, slot: int | None, card: str | None, milli: int, mib: int) -> None:
        if slot is None or card is None:
            self.uuids.append(uuid)
        else:
            self.uuids.append(card)
            self.milli, self.memory_mib = milli, mib


def sync_node(*, node: Node, request: SyncRequest, now: datetime | None = None) -> SyncReply | None:
    """Take in what the node says and answer with what it should run.

    None: there is nothing that the node has not seen, and it is willing to wait for news.

    1. Heartbeat: the node is heard; a silent or lost one comes back.
    2. Inventory, when it came along.
    3. What is wrong with it, before devices are given back.
    4. Reports, each a no-op when it is old news.
    5. Samples; they may be lost, so they come last.
    """
    now = now or timezone.now()
    if not OLDEST_PROTOCOL <= request.protocol <= PROTOCOL:
        raise Invalid(
            f"This server speaks protocols {OLDEST_PROTOCOL} to {PROTOCOL}.",
            field="protocol",
            code="protocol_unsupported",
        )
    forget: set[int] = set()
    with transaction.atomic():
        _hear(node, request, now)
        if request.troubles is not None:
            take_troubles(node, request.troubles, now=now)
        if request.checks:
            take_checks(node, request.checks, now=now)
        if request.host is not None:
            store_host(node, request.host)
        judge_isolation(node, now=now)
        if request.devices is not None:
            store_devices(node, request.devices, now=now)
            events.wake_scheduler_on_commit()
        if request.reports:
            forget = report_attempts(
                node=node,
                reports=request.reports,
                now=now,
                clock_ahead_s=request.sent_at - now.timestamp(),
            )
        ingest_samples(node=node, request=request, now=now)
        reach("portal.reports-taken")
    reach("portal.reports-committed")
    is_news = forget or request.hold_s <= 0 or desired_revision(node.pk) != request.seen_revision
    return current_reply(node, forget, now=now) if is_news else None


def _hear(node: Node, request: SyncRequest, now: datetime) -> None:
    skew = request.sent_at - now.timestamp()
    Node.objects.filter(pk=node.pk).update(
        last_seen_at=now,
        boot_id=request.boot_id[:64],
        agent_id=request.agent_id[:64],
        agent_version=request.agent_version[:32],
        protocol=request.protocol,
        clock_skew_s=max(-1e9, min(1e9, skew)),
    )
    if node.state in (NodeState.SILENT, NodeState.LOST):
        back = NodeState.DRAINING if node.drain_requested_at else NodeState.READY
        if node.trouble:
            back = NodeState.QUARANTINED
        transitions.move_node(
            node,
            back,
            now=now,
            kind="heard_again",
            reason="" if back is NodeState.READY else node.state_reason,
        )
    judge_clock(node, skew, now=now)


def desired_revision(node_id: int) -> int:
    """What a held sync watches; one indexed read."""
    return Node.objects.values_list("desired_revision", flat=True).get(pk=node_id)


def desired_revisions(node_ids: Iterable[int]) -> dict[int, int]:
    """The same of many nodes; one read."""
    nodes = Node.objects.filter(pk__in=list(node_ids))
    return dict(nodes.values_list("pk", "desired_revision"))


def current_reply(
    node: Node, forget: Iterable[int] = (), *, now: datetime | None = None
) -> SyncReply:
    """The complete truth for the node, read now.

    The revision is read first: if something changes in between, the node is told the newer state
    under the older number and asks again, which does no harm.
    """
    revision, state, has_checks = Node.objects.values_list(
        "desired_revision", "state", "has_checks"
    ).get(pk=node.pk)
    placements = list(
        Placement.objects.filter(
            node=node, ended_at__isnull=True, attempt__state__in=LIVE_ATTEMPT_STATES
        )
        .select_related(
            "attempt__job__project__team", "attempt__job__job_set", "attempt__resumes", "node"
        )
        .order_by("attempt_id")
    )
    grants: dict[int, _Grant] = {}
    addresses: dict[int, list[str]] = {}
    if placements:
        held = Allocation.objects.filter(
            placement__in=placements, released_at__isnull=True
        ).order_by("device__index", "device__pk")
        for placement_id, *device in held.values_list("placement_id", *_GRANTED):
            grants.setdefault(placement_id, _Grant()).add(*device)
        ranks = Placement.objects.filter(attempt__in=[p.attempt_id for p in placements]).order_by(
            "rank"
        )
        for attempt_id, address in ranks.values_list("attempt_id", "node__address"):
            addresses.setdefault(attempt_id, []).append(address)
    return SyncReply(
        protocol=PROTOCOL,
        revision=revision,
        node_state=NodeState(state),
        assignments=tuple(
            _assignment(p, tuple(addresses[p.attempt_id]), grants.get(p.pk, _Grant()))
            for p in placements
            if _may_be_told(p)
        ),
        forget=tuple(sorted(forget)),
        check=due_checks(node, now=now or timezone.now()) if has_checks else (),
    )


def _may_be_told(placement: Placement) -> bool:
    """Ranks above 0 start once rank 0's node has reported its port; a stop is told to all."""
    attempt = placement.attempt
    return (
        placement.rank == 0
        or attempt.master_port is not None
        or attempt.state == AttemptState.STOPPING
    )


def _assignment(placement: Placement, addresses: tuple[str, ...], grant: _Grant) -> Assignment:
    attempt = placement.attempt
    job = attempt.job
    spec = JobSpec.model_validate(job.spec)
    stop = None
    if attempt.state == AttemptState.STOPPING:
        stop = StopOrder(_told_reason(placement), attempt.stop_grace_s)
    return Assignment(
        fence=attempt.pk,
        job_id=job.pk,
        job_name=job.name,
        team=job.project.team.slug,
        project=job.project.path,
        attempt_number=attempt.number,
        rank=placement.rank,
        addresses=addresses,
        device_uuids=tuple(grant.uuids),
        gpu_milli=grant.milli,
        gpu_memory_mib=grant.memory_mib,
        launch=_launch(spec, job),
        master_port=attempt.master_port if placement.rank else None,
        resume_from=attempt.resumes.checkpoint_path if attempt.resumes else "",
        resume=_resume(attempt.resumes),
        stop=stop,
    )


def _told_reason(placement: Placement) -> EndReason:
    """Agents of protocol 1 know no pause, and none knows of budgets and sizes; what
    follows from a stop is not theirs to know."""
    reason = EndReason(placement.attempt.stop_reason)
    if reason is EndReason.BOOKING_ENDED:
        # For a node that is a time limit like any other, told by the server.
        return EndReason.TIME_LIMIT
    is_old = placement.node.protocol < 2
    is_new_to_it = (is_old and reason in PAUSES) or reason in (
        EndReason.BUDGET_SPENT,
        EndReason.RESIZED,
    )
    return EndReason.PREEMPTED if is_new_to_it else reason


def _resume(earlier: Attempt | None) -> Checkpoint | None:
    if earlier is None or earlier.checkpoint_at is None:
        return None
    return Checkpoint(
        path=earlier.checkpoint_path,
        step=earlier.checkpoint_step or 0,
        bytes=earlier.checkpoint_bytes or 0,
        digest=earlier.checkpoint_digest,
        taken_at=earlier.checkpoint_at.timestamp(),
    )


def _launch(spec: JobSpec, job: Job) -> Launch:
    return Launch(
        command=spec.command,
        env={**spec.env, **_of_array(job)},
        working_dir=spec.working_dir,
        code=Code(
            script=spec.script,
            folder=spec.code.folder,
            git_url=spec.code.git_url,
            git_ref=spec.code.git_ref,
        ),
        processes_per_node=spec.gpus_per_node if spec.processes == "gpu" else 1,
        cpus=spec.cpus,
        memory_mib=spec.memory,
        time_limit_s=spec.time_limit,
        checkpoint_dir=spec.checkpoint_dir,
        stop_signal=str(spec.stop.signal),
        stop_grace_s=spec.stop.grace,
        secrets=spec.secrets,
        log_cap_mib=load_conf().log_cap_mib,
    )


def _of_array(job: Job) -> dict[str, str]:
    """What tells a task of an array which one it is; a user's variable never has such a name."""
    if job.job_set is None:
        return {}
    return {
        "TRAINYARD_ARRAY_ID": str(job.job_set.pk),
        "TRAINYARD_ARRAY_INDEX": str(job.array_index),
        "TRAINYARD_ARRAY_SIZE": str(job.job_set.size),
    }
