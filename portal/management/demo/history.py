"""Weeks of work, told to the services with passed times: submit, start, reports, drain, resume.

What the doors would do in those weeks is done here in the same order by the same services, so the
rows are those of a real installation. Nothing is written into a table directly.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from accounts.models import Project, User
from portal.management.demo.plan import GPUS, NODES, Outage, Plan, PlannedJob
from scheduler.models import Attempt, Job, Node, Pool
from scheduler.selectors.cluster import visible_nodes
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.nodes import drain_node, enrol_node, issue_node_token, resume_node
from scheduler.services.placing import Start, start_attempts
from scheduler.services.reaping import finish_drains
from scheduler.services.rows.placed import PlacedOn
from scheduler.services.sync import sync_node
from scheduler.spec import parse_spec
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import (
    PROTOCOL,
    AttemptReport,
    DeviceFacts,
    EnrolRequest,
    HostFacts,
    SyncRequest,
)

# A name of its own, so that its prices concern no real device.
MODEL = "Simulated H100 80GB"
_BOOT = "demonstration"
_SETTLE_S = 25
_REASONS = {
    "completed": (EndReason.COMPLETED, 0),
    "failed": (EndReason.EXIT_CODE, 1),
    "cancelled": (EndReason.CANCELLED_BY_USER, 143),
}


def moment(seconds: int) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


@dataclass
class Yard:
    """Where it happens and who takes part; `token` fences the starts."""

    operator: User
    pool: Pool
    nodes: list[Node]
    owners: Sequence[tuple[User, Project]]
    renew: Callable[[], int]


def enrol_nodes(operator: User, pool: Pool, now: datetime) -> list[Node]:
    """Eight nodes of eight simulated GPUs."""
    names = [f"demo-{number:02d}" for number in range(1, NODES + 1)]
    for name in names:
        _, secret = issue_node_token(actor=operator, pool=pool, now=now)
        enrol_node(request=_enrolment(secret, name), now=now)
    found = {node.name: node for node in visible_nodes(operator).filter(name__in=names)}
    return [found[name] for name in names]


def _enrolment(secret: str, name: str) -> EnrolRequest:
    devices = tuple(
        DeviceFacts(
            uuid=f"GPU-SIM-{name}-{index}",
            index=index,
            model=MODEL,
            memory_mib=81_559,
            simulated=True,
        )
        for index in range(GPUS)
    )
    host = HostFacts(cpus=96, memory_mib=1_000_000, scratch_mib=4_000_000, address="192.0.2.1")
    return EnrolRequest(
        token=secret,
        name=name,
        protocol=PROTOCOL,
        agent_version=_BOOT,
        boot_id=_BOOT,
        host=host,
        devices=devices,
    )


class Told:
    """Tells a plan, moment by moment."""

    def __init__(self, yard: Yard) -> None:
        self._yard = yard
        self._jobs: dict[int, Job] = {}
        self._attempts: dict[int, Attempt] = {}
        self._devices = {
            number: list(node.devices.order_by("index").values_list("pk", flat=True))
            for number, node in enumerate(yard.nodes)
        }

    def tell(self, plan: Plan) -> int:
        """Everything in order of time; how many moments there were."""
        moments = [*_moments(plan)]
        heapq.heapify(moments)
        count = len(moments)
        while moments:
            at_s, _, _, what, thing = heapq.heappop(moments)
            getattr(self, f"_{what}")(thing, moment(at_s))
        return count

    def _submit(self, planned: PlannedJob, now: datetime) -> None:
        owner, project = self._yard.owners[planned.owner]
        document = {
            "name": planned.name,
            "project": project.path,
            "pool": self._yard.pool.name,
            "tier": planned.tier,
            "command": ["python", "train.py", "--run", planned.name],
            "nodes": planned.nodes,
            "gpus_per_node": planned.gpus,
            "cpus": 8 * planned.gpus,
            "memory": f"{64 * planned.gpus}GiB",
            "time_limit": f"{planned.limit_s // 3600}h",
        }
        made = submit_job(actor=owner, spec=parse_spec(document), now=now)
        self._jobs[planned.number] = made.job

    def _start(self, planned: PlannedJob, now: datetime) -> None:
        job = self._jobs[planned.number]
        placements = tuple(
            PlacedOn(
                node_id=self._yard.nodes[node].pk,
                rank=rank,
                device_ids=tuple(self._devices[node][index] for index in devices),
                cpus=job.cpus,
                memory_mib=job.memory_mib,
            )
            for rank, (node, devices) in enumerate(planned.places)
        )
        started = start_attempts(
            [Start(job.pk, placements)], lease_token=self._yard.renew(), now=now
        )
        if started:
            self._attempts[planned.number] = job.attempts.latest("number")

    def _run(self, planned: PlannedJob, now: datetime) -> None:
        self._report(planned, now, state=AttemptState.RUNNING, started_at=now.timestamp())

    def _cancel(self, planned: PlannedJob, now: datetime) -> None:
        if planned.number in self._attempts:
            owner, _ = self._yard.owners[planned.owner]
            cancel_job(actor=owner, job=self._jobs[planned.number], now=now)

    def _end(self, planned: PlannedJob, now: datetime) -> None:
        reason, code = _REASONS[planned.end]
        self._report(
            planned, now, state=AttemptState.ENDED, exit_code=code, end_reason=reason, log_size=0
        )

    def _report(self, planned: PlannedJob, now: datetime, **fields: Any) -> None:
        attempt = self._attempts.get(planned.number)
        if attempt is None:
            return
        for rank, (node, _) in enumerate(planned.places):
            self._sync(node, now, AttemptReport(fence=attempt.pk, rank=rank, **fields))

    def _sync(self, node: int, now: datetime, *reports: AttemptReport) -> None:
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version=_BOOT,
            agent_id=_BOOT,
            boot_id=_BOOT,
            seen_revision=0,
            hold_s=0,
            sent_at=now.timestamp(),
            reports=reports,
        )
        row = self._yard.nodes[node]
        row.refresh_from_db()
        sync_node(node=row, request=request, now=now)

    def _drain(self, outage: Outage, now: datetime) -> None:
        node = self._yard.nodes[outage.node]
        drain_node(actor=self._yard.operator, node=node, reason="new power supply", now=now)
        finish_drains(now=now)

    def _resume(self, outage: Outage, now: datetime) -> None:
        resume_node(actor=self._yard.operator, node=self._yard.nodes[outage.node], now=now)

    def hear_all(self, now: datetime) -> None:
        """Every node says that it is there."""
        for number in range(len(self._yard.nodes)):
            self._sync(number, now)


def _moments(plan: Plan) -> Iterator[tuple[int, int, int, str, Any]]:
    """(second, what goes first within it, number, what, of which)."""
    for job in plan.jobs:
        yield job.submit_s, 3, job.number, "submit", job
        if job.start_s:
            yield job.start_s, 4, job.number, "start", job
            yield job.start_s + _SETTLE_S, 5, job.number, "run", job
            yield job.end_s, 1, job.number, "end", job
            if job.end == "cancelled":
                yield job.end_s - 8, 0, job.number, "cancel", job
    for outage in plan.outages:
        yield outage.start_s, 2, outage.node, "drain", outage
        yield outage.end_s, 2, outage.node, "resume", outage
