"""Fills a month: what people set up goes through the services, what ran into the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from django.db import connection, transaction

from accounts.models import User
from accounts.selectors import person_named
from accounts.services import (
    appoint_bookkeeper,
    approve_rate,
    create_project,
    create_team,
    propose_rate,
)
from portal.bench.figures import tell
from portal.bench.money.month import GPUS, Stay, month, nodes_for
from scheduler.ledger.periods import Month
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import Attempt, Job, Pool
from scheduler.services.books import set_share_policy
from scheduler.services.bulk import MAX_JOBS, submit_jobs
from scheduler.services.nodes import create_pool, enrol_node, issue_node_token
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import parse_spec
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import PROTOCOL, DeviceFacts, EnrolReply, EnrolRequest, HostFacts

FLAVOURS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA L40S")
_TEAMS, _PROJECTS, _JOBS = 5, 4, 10
_CHUNK = 20_000


def fill(root: User, last: Month, segments: int, seed: int) -> dict[str, Any]:
    """What people set up goes through the services, what ran straight into the tables."""
    before = datetime.fromtimestamp(last.start_s, UTC)
    tell(f"enrolling {nodes_for(segments)} nodes")
    devices = _cluster(root, segments, before)
    _prices(root, before)
    jobs = _jobs(root, max(1, len(devices) // (2 * _TEAMS)), before)
    tell("writing attempts and segments")
    stays = [stay for gang in month(segments, last.start_s, last.end_s, seed) for stay in gang]
    stays.sort(key=lambda stay: stay.start_s)
    attempts = _attempts(jobs, stays, before)
    count = _segments(stays, devices, attempts, jobs, last.start_s)
    return {"segments": count, "attempts": len(attempts), "devices": len(devices)}


def _cluster(root: User, segments: int, before: datetime) -> list[tuple[int, int, str]]:
    """Nodes in three pools; the devices as (id, pool, model)."""
    pools = [create_pool(actor=root, name=f"bench{n}") for n in range(len(FLAVOURS))]
    for pool in pools:
        set_share_policy(actor=root, pool=pool, idle=IdlePolicy.BY_USE)
    for number in range(nodes_for(segments)):
        enrol(root, pools[number % 3], number, FLAVOURS[number % 3], before)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT d.id, n.pool_id, d.model FROM scheduler_device d "
            'JOIN scheduler_node n ON n.id = d.node_id ORDER BY n.id, d."index"'
        )
        return list(cursor.fetchall())


def enrol(root: User, pool: Pool, number: int, model: str, now: datetime) -> EnrolReply:
    """One node of eight GPUs of this model, with nothing behind it."""
    _, secret = issue_node_token(actor=root, pool=pool, now=now)
    name = f"n{number:05d}"
    cards = tuple(
        DeviceFacts(
            uuid=f"GPU-SIM-{name}-{index}",
            index=index,
            model=model,
            memory_mib=81_920,
            simulated=True,
        )
        for index in range(GPUS)
    )
    return enrol_node(
        request=EnrolRequest(
            token=secret,
            name=name,
            protocol=PROTOCOL,
            agent_version="bench",
            boot_id="boot",
            host=HostFacts(cpus=64, memory_mib=512_000, scratch_mib=100_000, address="127.0.0.1"),
            devices=cards,
        ),
        now=now,
    )


def _prices(root: User, before: datetime) -> None:
    """A general price for each flavour, another one from the 15th on, and shares of idle time.

    Two people keep the books: one proposes, the other approves.
    """
    clerk = person_named("alice")
    assert clerk is not None
    appoint_bookkeeper(actor=root, user=clerk)
    mid_month = datetime.fromtimestamp(before.timestamp() + 15 * 86_400, UTC)
    general = [
        (model, "", f"{number + 1}.{cents}", moment)
        for number, model in enumerate(FLAVOURS)
        for cents, moment in (("37", before), ("49", mid_month))
    ]
    for model, kind, price, moment in (*general, ("", "idle-share", "0.11", before)):
        rate = propose_rate(
            actor=clerk,
            device_model=model,
            kind=kind,
            price_per_gpu_hour=Decimal(price),
            valid_from=moment,
            restate=True,
            reason="It began so.",
        )
        approve_rate(actor=root, rate=rate)


def _jobs(root: User, guaranteed: int, before: datetime) -> list[Job]:
    """Jobs of every project; teams are guaranteed half of the cards, so that they borrow too."""
    specs = []
    for team_number in range(_TEAMS):
        team = create_team(actor=root, name=f"Bench {team_number}")
        set_quota(actor=root, owner=team, guaranteed=guaranteed, now=before)
        for project_number in range(_PROJECTS):
            project = create_project(actor=root, team=team, name=f"Work {project_number}")
            document = {
                "name": "train",
                "project": project.path,
                "pool": "bench0",
                "command": ["/bin/true"],
                "memory": "1GiB",
                "time_limit": "4h",
            }
            specs += [parse_spec(document)] * _JOBS
    jobs: list[Job] = []
    for first in range(0, len(specs), MAX_JOBS):
        made = submit_jobs(actor=root, specs=specs[first : first + MAX_JOBS])
        jobs += [one.job for one in made]
    return jobs


def _chunks(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    source = iter(rows)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def _attempts(jobs: list[Job], stays: list[Stay], now: datetime) -> dict[int, tuple[int, int]]:
    """A row per attempt, copied from one the product's model wrote; (id, job) by number."""
    pattern = Attempt(
        job=jobs[0],
        number=1,
        state=AttemptState.ENDED,
        end_reason=EndReason.COMPLETED,
        assigned_at=now,
        ended_at=now,
    )
    pattern.save()
    names = [f.column for f in Attempt._meta.concrete_fields]
    own = ("id", "job_id", "number")
    rest = [f'"{name}"' for name in names if name not in own]
    order = dict.fromkeys(stay.attempt for stay in stays if stay.attempt >= 0)
    found: dict[int, tuple[int, int]] = {}
    counts = [1] * len(jobs)
    rows = []
    for place, attempt in enumerate(order):
        job = place % len(jobs)
        counts[job] += 1
        found[attempt] = (pattern.pk + 1 + place, job)
        rows.append((pattern.pk + 1 + place, jobs[job].pk, counts[job], pattern.pk))
    # Put together from the model's own column names; values are passed as parameters.
    statement = (
        f"INSERT INTO scheduler_attempt (id, job_id, number, {', '.join(rest)}) "  # noqa: S608 - our own names
        f"SELECT %s, %s, %s, {', '.join(rest)} FROM scheduler_attempt WHERE id = %s"
    )
    with transaction.atomic(), connection.cursor() as cursor:
        for chunk in _chunks(rows):
            cursor.executemany(statement, chunk)
    return found


def _segments(
    stays: list[Stay],
    devices: list[tuple[int, int, str]],
    attempts: dict[int, tuple[int, int]],
    jobs: list[Job],
    start_s: int,
) -> int:
    def rows() -> Iterator[tuple[Any, ...]]:
        for stay in stays:
            attempt, job = attempts.get(stay.attempt, (None, -1))
            project = jobs[job].project_id if attempt else None
            for device in stay.devices:
                pk, pool, model = devices[device]
                yield pk, pool, model, stay.bucket, attempt, project, stay.start_s, stay.end_s

    count = 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_devicesegment SET end_s = %s WHERE end_s IS NULL", [start_s]
        )
        for chunk in _chunks(rows()):
            cursor.executemany(
                "INSERT INTO scheduler_devicesegment (device_id, pool_id, flavour, bucket, "
                "attempt_id, project_id, cause, start_s, end_s) "
                "VALUES (%s, %s, %s, %s, %s, %s, 'bench', %s, %s)",
                chunk,
            )
            count += len(chunk)
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence('scheduler_attempt', 'id'), "
                "(SELECT max(id) FROM scheduler_attempt))"
            )
            cursor.execute("ANALYZE")
    return count
