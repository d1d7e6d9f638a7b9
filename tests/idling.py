"""A job whose GPUs do nothing, under a rule, for tests with a database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from accounts.models import Project, User
from scheduler.models import Allocation, Attempt, DeviceSample, IdleRule, IdleWarning, Job, Pool
from scheduler.services.idling.ladder import tend_idle_jobs
from scheduler.services.idling.rules import IdleTerms, set_idle_rule
from tests import scenes
from tests.scenes import NOON, Cluster

# Warned after 20 minutes of rest, the first 10 aside; paused 15 minutes later.
TERMS = IdleTerms(act="pause", warn_minutes=20, first_minutes=10, act_minutes=15, keep_hours=5)


def later(minutes: float) -> datetime:
    """So many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def rule_for(actor: User, owner: Project | Pool, **more: Any) -> IdleRule:
    """TERMS, with changes, in force since noon."""
    terms = IdleTerms(**{**{name: getattr(TERMS, name) for name in TERMS.__slots__}, **more})
    return set_idle_rule(actor=actor, owner=owner, terms=terms, now=NOON)


def runs(
    cluster: Cluster,
    owner: User,
    project: Project,
    *,
    nodes: int = 1,
    since: datetime = NOON,
    **more: Any,
) -> Attempt:
    """A job of one GPU on each of so many nodes, which has run since then."""
    fields = {"nodes": nodes, "time_limit": "9h", **more}
    job = scenes.submit(owner, project, now=since, **fields)
    attempt = scenes.start(job, *cluster.nodes[:nodes], now=since)
    for rank in range(nodes):
        scenes.sync(cluster.node(rank + 1), scenes.running(attempt, rank), now=since)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=since)
    attempt.refresh_from_db()
    return attempt


def rests(
    attempt: Attempt,
    first: float,
    last: float,
    *,
    percent: float = 1.0,
    memory: int = 4000,
    ranks: tuple[int, ...] = (0, 1, 2),
) -> None:
    """A reading a minute of the GPUs of these ranks, in minutes after noon."""
    held = Allocation.objects.filter(placement__attempt=attempt, placement__rank__in=ranks)
    DeviceSample.objects.bulk_create(
        DeviceSample(
            device_id=device,
            attempt=attempt,
            at=later(minute),
            gpu_percent=percent,
            memory_used_mib=memory,
            power_watts=70,
            temperature_c=31,
        )
        for device in held.values_list("device_id", flat=True)
        for minute in range(int(first), int(last) + 1)
    )


def look(minutes: float) -> int:
    """The ladder's look at so many minutes after noon."""
    return tend_idle_jobs(now=later(minutes))


def watch(first: int, last: int) -> int:
    """A look every three minutes, the last one then; how many were paused or stopped."""
    return sum(look(minute) for minute in (*range(first, last, 3), last))


def warnings_of(job: Job) -> list[IdleWarning]:
    """All that its attempts were given, in order."""
    return list(IdleWarning.objects.filter(attempt__job=job).order_by("pk"))
