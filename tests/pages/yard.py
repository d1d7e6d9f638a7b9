"""A small yard for the page tests: one job in each state, with log, readings and cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from accounts.models import Project, User
from scheduler.models import Attempt, Booking, DeviceSample, Job, Pool
from scheduler.services.bookings import plan_booking
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.waits import record_waits
from scheduler.states import EndReason
from tests import scenes

LOG = b"epoch 1 \x1b[32mok\x1b[0m\n<script>alert(1)</script>\nlast line\n"


@dataclass
class Yard:
    cluster: scenes.Cluster
    running: Job
    attempt: Attempt
    queued: Job
    held: Job
    succeeded: Job
    failed: Job


def build_yard(root: User, owner: User, project: Project) -> Yard:
    """Two nodes of two GPUs; times end just now, so that pages show what people would see."""
    now = timezone.now()
    # No earlier: months from the first card on are closed in order, and `billed` closes one.
    cluster = scenes.build_cluster(root, nodes=2, gpus=2, now=now - timedelta(days=7))
    done = [
        _ended(
            cluster, owner, project, "done", EndReason.COMPLETED, 0, now - timedelta(minutes=30)
        ),
        _ended(
            cluster, owner, project, "broken", EndReason.EXIT_CODE, 3, now - timedelta(minutes=20)
        ),
    ]
    running = scenes.submit(owner, project, name="running", now=now - timedelta(minutes=9))
    attempt = scenes.start(running, cluster.node(1), now=now - timedelta(minutes=8))
    scenes.sync(cluster.node(1), scenes.running(attempt), now=now - timedelta(minutes=7))
    scenes.write_log(cluster.node(1), attempt, LOG)
    scenes.write_output(cluster.node(1), attempt, "loss.csv", b"0.5")
    add_samples(attempt, now)
    queued = scenes.submit(owner, project, name="queued", now=now - timedelta(minutes=5))
    facts = {"need": "1 GPU", "free": 0, "total": 4, "pool": "default"}
    record_waits([(queued.pk, "capacity_busy", facts)], now=now)
    held = scenes.submit(owner, project, name="held", now=now - timedelta(minutes=4))
    held = hold_job(actor=owner, job=held, now=now)
    for job in (running, queued, *done):
        job.refresh_from_db()
    return Yard(cluster, running, attempt, queued, held, *done)


def _ended(cluster, owner, project, name, reason, code, began) -> Job:
    job = scenes.submit(owner, project, name=name, now=began)
    attempt = scenes.start(job, cluster.node(2), now=began)
    scenes.sync(cluster.node(2), scenes.running(attempt), now=began + timedelta(seconds=2))
    report = scenes.ended(attempt, reason=reason, exit_code=code)
    scenes.sync(cluster.node(2), report, now=began + timedelta(seconds=92))
    job.refresh_from_db()
    return job


def add_samples(attempt: Attempt, now, count: int = 20) -> None:
    placement = attempt.placements.get(rank=0)
    for allocation in placement.allocations.all():
        DeviceSample.objects.bulk_create(
            DeviceSample(
                device=allocation.device,
                attempt=attempt,
                at=now - timedelta(seconds=2 * (count - number)),
                gpu_percent=40 + number,
                memory_used_mib=2048 + number,
                power_watts=200 + number,
                temperature_c=50,
            )
            for number in range(count)
        )


def book_soon(actor: User, project: Project, pool: Pool, **more: Any) -> Booking:
    """One node in an hour, for two."""
    begin = timezone.now() + timedelta(hours=1)
    until = begin + timedelta(hours=2)
    return plan_booking(
        actor=actor,
        owner=project,
        pool=pool,
        **{"nodes": 1, "from_at": begin, "until_at": until, **more},
    )
