"""A small cluster and its ways, for tests with a database: nodes enrol, jobs start, ranks report.

Everything goes through the services, as the real doors do.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from accounts.models import Project, User
from accounts.services import set_rate
from scheduler.conf import load_conf
from scheduler.models import Attempt, Device, Job, Node, OutputFile, Pool, SchedulerLease
from scheduler.services.jobs import submit_job
from scheduler.services.kept.outputs import append_output, take_output_list
from scheduler.services.logs import append_log
from scheduler.services.nodes import create_pool, enrol_node, issue_node_token
from scheduler.services.placing import Start, start_attempts
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sync import sync_node
from scheduler.spec import parse_spec
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import (
    AttemptReport,
    DeviceFacts,
    EnrolRequest,
    HostFacts,
    SyncReply,
    SyncRequest,
)
from scheduler.wire.outputs import OUTPUT_PART, OutputEntry, OutputList

NOON = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
MODEL = "NVIDIA H100 80GB HBM3"
TOKEN = 7


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


@dataclass
class Cluster:
    """One pool with nodes `n1`, `n2`, … of so many simulated GPUs each."""

    root: User
    pool: Pool
    nodes: list[Node]

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]


def build_cluster(
    root: User, *, nodes: int = 1, gpus: int = 2, pool: str = "default", now: datetime = NOON
) -> Cluster:
    made = create_pool(actor=root, name=pool)
    SchedulerLease.objects.get_or_create(
        name="scheduler", defaults={"holder": "test", "token": TOKEN, "expires_at": at(10**9)}
    )
    set_rate(
        actor=root,
        device_model=MODEL,
        price_per_gpu_hour=Decimal("3.60"),
        currency="EUR",
        valid_from=NOON - timedelta(days=400),
        restated_for="as if then",
    )
    cluster = Cluster(root, made, [])
    for number in range(1, nodes + 1):
        add_node(cluster, f"n{number}", gpus, now)
    return cluster


def add_node(cluster: Cluster, name: str, gpus: int, now: datetime = NOON) -> Node:
    _, secret = issue_node_token(actor=cluster.root, pool=cluster.pool, now=now)
    enrol_node(request=enrol_request(secret, name, gpus), now=now)
    node = Node.objects.get(name=name)
    cluster.nodes.append(node)
    return node


def enrol_request(secret: str, name: str, gpus: int) -> EnrolRequest:
    return EnrolRequest(
        token=secret,
        name=name,
        protocol=1,
        agent_version="0.1.0",
        boot_id="boot-1",
        host=HostFacts(cpus=16, memory_mib=65536, scratch_mib=100_000, address="127.0.0.1"),
        devices=tuple(
            DeviceFacts(
                uuid=f"GPU-SIM-{name}-{index}",
                index=index,
                model=MODEL,
                memory_mib=81920,
                simulated=True,
            )
            for index in range(gpus)
        ),
    )


def submit(actor: User, project: Project, *, now: datetime = NOON, **fields: Any) -> Job:
    """A one-GPU job of `project` unless `fields` say otherwise."""
    document = {"name": "train", "project": project.path, "script": "echo hi", **fields}
    return submit_job(actor=actor, spec=parse_spec(document), now=now).job


def start(job: Job, *nodes: Node, now: datetime = NOON, token: int = TOKEN) -> Attempt:
    """Place the job on free devices of `nodes`, one rank each, as a plan would."""
    started = start_attempts([planned(job, *nodes)], lease_token=token, now=now)
    assert started == [job.pk]
    return job.attempts.latest("number")


def planned(job: Job, *nodes: Node) -> Start:
    """The same before it is committed."""
    placements = tuple(
        PlacedOn(
            node_id=node.pk,
            rank=rank,
            device_ids=_free(node, job.gpus_per_node),
            cpus=job.cpus,
            memory_mib=job.memory_mib,
        )
        for rank, node in enumerate(nodes)
    )
    return Start(job.pk, placements)


def _free(node: Node, count: int) -> tuple[int, ...]:
    free = Device.objects.filter(node=node).exclude(
        allocations__isnull=False, allocations__released_at__isnull=True
    )
    return tuple(free.order_by("index").values_list("pk", flat=True)[:count])


def sync(node: Node, *reports: AttemptReport, now: datetime = NOON, **fields: Any) -> SyncReply:
    """One sync of `node` that carries these reports."""
    request = SyncRequest(
        protocol=1,
        agent_version="0.1.0",
        agent_id="agent-1",
        boot_id="boot-1",
        seen_revision=0,
        hold_s=0,
        sent_at=now.timestamp(),
        reports=tuple(reports),
    )
    reply = sync_node(node=node, request=replace(request, **fields), now=now)
    assert reply is not None, "a call that is not willing to wait is always answered"
    return reply


def given_up_after() -> timedelta:
    """How long a node with nothing but usual jobs is waited for before it is lost."""
    return load_conf().lost_after_grace(0, 30)


def running(attempt: Attempt, rank: int = 0, **fields: Any) -> AttemptReport:
    return AttemptReport(
        fence=attempt.pk, rank=rank, state=AttemptState.RUNNING, started_at=time.time(), **fields
    )


def ended(
    attempt: Attempt,
    rank: int = 0,
    *,
    reason: EndReason = EndReason.COMPLETED,
    exit_code: int | None = 0,
    log_size: int = 0,
    **fields: Any,
) -> AttemptReport:
    return AttemptReport(
        fence=attempt.pk,
        rank=rank,
        state=AttemptState.ENDED,
        exit_code=exit_code,
        end_reason=reason,
        log_size=log_size,
        **fields,
    )


def write_log(node: Node, attempt: Attempt, *pieces: bytes, rank: int = 0) -> int:
    """Append the pieces in order; returns the size of the log."""
    size = 0
    for piece in pieces:
        size = append_log(
            node=node, fence=attempt.pk, rank=rank, offset=size, body=piece, now=NOON
        ).size
    return size


def write_output(
    node: Node, attempt: Attempt, name: str, content: bytes, *, rank: int = 0, **fields: Any
) -> OutputFile:
    """List a file of a rank's output folder and hand over its bytes."""
    entry = OutputEntry(name, len(content), hashlib.sha256(content).hexdigest())
    who: dict[str, Any] = {"node": node, "fence": attempt.pk, "rank": rank}
    plan = take_output_list(**who, found=OutputList((entry,)), **fields)
    for wish in plan.wanted:
        for offset in range(wish.offset, len(content), OUTPUT_PART):
            part = content[offset : offset + OUTPUT_PART]
            append_output(**who, number=wish.number, offset=offset, part=part, **fields)
    return OutputFile.objects.get(job=attempt.job_id, rank=rank, name=name)


def states(job: Job) -> Sequence[str]:
    """The states the job has been in, from its events."""
    return [e.to_state for e in job.events.order_by("id") if e.to_state]
