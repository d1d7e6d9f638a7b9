"""What a node should run: the complete truth, read now, in as few statements and bytes as it takes.

A node says which attempts it knows. Of those that go on as they were told it hears the fence alone;
only what it has not heard yet, was given more time, or is to stop, is put together and sent whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from scheduler.conf import load_conf
from scheduler.models import Allocation, Attempt, Job, Node, Placement
from scheduler.services.nodes.health import due_checks
from scheduler.services.rows.reading import BuiltOnce
from scheduler.spec import JobSpec
from scheduler.spec.values import WHOLE_MILLI
from scheduler.states import LIVE_ATTEMPT_STATES, PAUSES, AttemptState, EndReason, NodeState
from scheduler.wire.messages import (
    PROTOCOL,
    Assignment,
    Checkpoint,
    Code,
    Launch,
    StopOrder,
    SyncReply,
    SyncRequest,
)
from scheduler.wire.sessions import SessionLaunch, path_of

_STANDING = tuple(
    "pk attempt_id rank attempt__state attempt__master_port attempt__extended_to_s".split()
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


def desired_revision(node_id: int) -> int:
    """What a held sync watches; one indexed read."""
    return Node.objects.values_list("desired_revision", flat=True).get(pk=node_id)


def desired_revisions(node_ids: Iterable[int]) -> dict[int, int]:
    """The same of many nodes; one read."""
    nodes = Node.objects.filter(pk__in=list(node_ids))
    return dict(nodes.values_list("pk", "desired_revision"))


def known_to(request: SyncRequest) -> frozenset[tuple[int, int]]:
    """Fence and rank of what the node reports and need not be told again while it goes on."""
    if not request.takes_kept:
        return frozenset()
    return frozenset((report.fence, report.rank) for report in request.reports)


def current_reply(
    node: Node,
    forget: Iterable[int] = (),
    *,
    known: Collection[tuple[int, int]] = (),
    now: datetime | None = None,
) -> SyncReply:
    """The complete truth for the node, read now; `known` as `known_to` says.

    The revision is read first: if something changes in between, the node is told the newer state
    under the older number and asks again, which does no harm.
    """
    row = Node.objects.values_list("desired_revision", "state", "has_checks").get(pk=node.pk)
    node.desired_revision, node.state, node.has_checks = row
    return reply_at(node, forget, known=known, now=now or timezone.now())


def reply_at(
    node: Node,
    forget: Iterable[int] = (),
    *,
    known: Collection[tuple[int, int]] = (),
    now: datetime,
) -> SyncReply:
    """As `current_reply`, under the revision and state that `node` was read with a moment ago."""
    kept, told = list[int](), list[int]()
    rows = _OPEN_HERE.rows([node.pk], now)
    for placement_id, fence, rank, state, master_port, extended in rows:
        if state == AttemptState.STOPPING:
            told.append(placement_id)
        elif (fence, rank) in known and extended is None:
            kept.append(fence)
        elif rank == 0 or master_port is not None:
            # Ranks above 0 start once rank 0's node has reported its port.
            told.append(placement_id)
    return SyncReply(
        protocol=PROTOCOL,
        revision=node.desired_revision,
        node_state=NodeState(node.state),
        assignments=_assignments(told) if told else (),
        forget=tuple(sorted(forget)),
        check=due_checks(node, now=now) if node.has_checks else (),
        kept=tuple(sorted(kept)),
    )


def _open() -> QuerySet[Placement]:
    return Placement.objects.filter(ended_at__isnull=True, attempt__state__in=LIVE_ATTEMPT_STATES)


def _open_on(nodes: Sequence[int], now: datetime) -> QuerySet[Placement, tuple[Any, ...]]:
    return _open().filter(node__in=nodes).order_by().values_list(*_STANDING)


_OPEN_HERE = BuiltOnce(_open_on)


def _assignments(placement_ids: Collection[int]) -> tuple[Assignment, ...]:
    """Three statements for any number of placements."""
    placements = list(
        _open()
        .filter(pk__in=placement_ids)
        .select_related(
            "attempt__job__project__team", "attempt__job__job_set", "attempt__resumes", "node"
        )
        .order_by("attempt_id")
    )
    grants: dict[int, _Grant] = {}
    held = Allocation.objects.filter(placement__in=placement_ids, released_at__isnull=True)
    held = held.order_by("device__index", "device__pk")
    for placement_id, *device in held.values_list("placement_id", *_GRANTED):
        grants.setdefault(placement_id, _Grant()).add(*device)
    addresses: dict[int, list[str]] = {}
    gangs = [p.attempt_id for p in placements]
    ranks = Placement.objects.filter(attempt__in=gangs).order_by("rank")
    for attempt_id, address in ranks.values_list("attempt_id", "node__address"):
        addresses.setdefault(attempt_id, []).append(address)
    return tuple(
        _assignment(p, tuple(addresses[p.attempt_id]), grants.get(p.pk, _Grant()))
        for p in placements
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
    """Agents of protocol 1 know no pause, and none knows of budgets, sizes and idle
    sessions; what follows from a stop is not theirs to know."""
    reason = EndReason(placement.attempt.stop_reason)
    if reason is EndReason.BOOKING_ENDED:
        # For a node that is a time limit like any other, told by the server.
        return EndReason.TIME_LIMIT
    is_old = placement.node.protocol < 2
    is_new_to_it = (is_old and reason in PAUSES) or reason in (
        EndReason.BUDGET_SPENT,
        EndReason.RESIZED,
        EndReason.SESSION_IDLE,
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
        time_limit_s=job.time_limit_s,
        checkpoint_dir=spec.checkpoint_dir,
        stop_signal=str(spec.stop.signal),
        stop_grace_s=spec.stop.grace,
        secrets=spec.secrets,
        log_cap_mib=load_conf().log_cap_mib,
        session=SessionLaunch(spec.session.app, path_of(job.pk)) if spec.session else None,
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
