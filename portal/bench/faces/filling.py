"""A busy cluster with years behind it: the demonstration's jobs again and again, then its present.

What people and nodes do goes through the services once; only the repetition is written straight
into the tables.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from accounts.models import Project, User
from accounts.selectors import person_named, visible_projects
from portal.bench.faces.particulars import one_of_each, replay_waiting
from portal.bench.figures import POOL, tell
from portal.bench.loop_cycles import call_of
from portal.bench.money.filling import FLAVOURS, enrol
from portal.embedded.sqlite.sizes import learn_sizes
from scheduler.loop.cycle import Scheduler
from scheduler.models import Node
from scheduler.selectors.cluster import get_visible_pool
from scheduler.services.bulk import MAX_JOBS, submit_jobs
from scheduler.services.nodes import authenticate_node
from scheduler.services.timeline.days import count_days
from scheduler.services.timeline.wasted_days import sum_days
from scheduler.spec import JobSpec, parse_spec
from scheduler.states import AttemptState
from scheduler.wire.messages import AttemptReport

# What submits through the services before it is repeated, too.
_PATTERNS = 300
_SIZES = (1, 2, 4, 8, 8, 8)
# Table, which of its rows are repeated, and which other columns grow with the copies. Of what a job
# held and used only the beginning: the jobs are many and short.
_TABLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("job", "id IN (SELECT id FROM bench_pattern)", ()),
    ("attempt", "job_id IN (SELECT id FROM bench_pattern)", ("job_id",)),
    ("placement", "id IN (SELECT id FROM bench_placement)", ("attempt_id",)),
    ("allocation", "id IN (SELECT id FROM bench_allocation)", ("placement_id",)),
    (
        "usageentry",
        "id IN (SELECT id FROM bench_usage)",
        ("allocation_id", "attempt_id", "job_id"),
    ),
    ("jobevent", "job_id IN (SELECT id FROM bench_pattern)", ("attempt_id", "job_id")),
)
_ENDED = "SELECT id FROM scheduler_job WHERE state IN ('succeeded', 'failed', 'cancelled')"
_CHOSEN = (
    ("pattern", _ENDED),
    (
        "placement",
        "SELECT p.id, a.job_id FROM scheduler_placement p JOIN scheduler_attempt a "
        "ON a.id = p.attempt_id WHERE a.job_id IN (SELECT id FROM bench_pattern)",
    ),
    (
        "allocation",
        "SELECT id FROM (SELECT a.id, ROW_NUMBER() OVER (PARTITION BY p.job_id ORDER BY a.id) "
        "AS nth FROM scheduler_allocation a JOIN bench_placement p ON p.id = a.placement_id) AS x "
        "WHERE nth <= 2",
    ),
    (
        "usage",
        "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY allocation_id ORDER BY id) "
        "AS nth FROM scheduler_usageentry WHERE allocation_id IN "
        "(SELECT id FROM bench_allocation)) AS x WHERE nth <= 2",
    ),
)


def fill(root: User, jobs: int, pending: int, nodes: int) -> dict[str, Any]:
    """`jobs` that have ended, `pending` that wait, `nodes` of eight GPUs that are full."""
    tell(f"repeating the past until there are {jobs} jobs")
    with transaction.atomic():
        ended = _repeat_ended(jobs)
    tell(f"enrolling {nodes} nodes")
    people = _submitters()
    now = timezone.now()
    pool = get_visible_pool(root, POOL)
    machines = [_known(enrol(root, pool, n, FLAVOURS[0], now).node_token) for n in range(nodes)]
    one_of_each(root, pool, *people[0])
    _fill_nodes(people, machines)
    tell(f"{pending} jobs more, which wait")
    waiting = _submit(people, min(_PATTERNS, pending))
    with transaction.atomic():
        low, high = min(waiting), max(waiting)
        times = pending // len(waiting) - 1
        _copy("job", f"id BETWEEN {low} AND {high}", times, ("id",), high - low + 1)
    _cycle(machines)
    replay_waiting()
    # As two runs of the hourly task do: the second puts together what the first wrote in parts.
    for run in range(2):
        count_days(now=timezone.now() + run * timedelta(hours=1))
        sum_days(now=timezone.now() + run * timedelta(hours=1))
    learn_sizes(connection)
    if connection.vendor == "postgresql":
        # As autovacuum does within the minute.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    return {"rows": {"jobs": count("job"), "ended": ended, **_counts()}}


def count(table: str) -> int:
    """Rows of a table of the scheduler."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM scheduler_{table}")  # noqa: S608 - our own names
        return int(cursor.fetchone()[0])


def _counts() -> dict[str, int]:
    names = ("attempt", "allocation", "usageentry", "jobevent", "device")
    with connection.cursor() as cursor:
        cursor.execute("SELECT state, COUNT(*) FROM scheduler_job GROUP BY state")
        states = dict(cursor.fetchall())
    wanted = {name: states.get(name, 0) for name in ("queued", "running")}
    return wanted | {f"{name}s": count(name) for name in names}


def _repeat_ended(wanted: int) -> int:
    """Jobs of the demonstration that have ended, with what hangs on them."""
    with connection.cursor() as cursor:
        for name, rows in _CHOSEN:
            cursor.execute(f"CREATE TEMPORARY TABLE bench_{name} AS {rows}")
        cursor.execute("SELECT COUNT(*) FROM bench_pattern")
        patterns = int(cursor.fetchone()[0])
    times = max(1, wanted // patterns - 1)
    # Above every number that is there, and wider than all rows of a pattern.
    top = max(_highest(table) for table, _, _ in _TABLES)
    for table, where, more in _TABLES:
        _copy(table, where, times, ("id", *more), top + 1)
    return times * patterns


def _highest(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT MAX(id) FROM scheduler_{table}")  # noqa: S608 - our own names
        return int(cursor.fetchone()[0])


def _copy(table: str, where: str, times: int, grows: tuple[str, ...], stride: int) -> None:
    """The rows so many times more, the columns `grows` larger by a stride each time.

    The names are the model's own columns; nothing of it came from outside.
    """
    began = time.monotonic()
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, f"scheduler_{table}")
        names = [column.name for column in described]
        values = [f'"{n}" + n * {stride}' if n in grows else f'"{n}"' for n in names]
        listed = ", ".join(f'"{name}"' for name in names)
        cursor.execute(
            f"INSERT INTO scheduler_{table} ({listed}) "  # noqa: S608 - our own names
            "WITH RECURSIVE series(n) AS "
            "(SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %s) "
            f"SELECT {', '.join(values)} FROM scheduler_{table}, series WHERE {where} ORDER BY n",
            [times],
        )
        if connection.vendor == "postgresql":
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence('scheduler_{table}', 'id'), "  # noqa: S608 - our own names
                f"(SELECT MAX(id) FROM scheduler_{table}))"
            )
    tell(f"{table}: {time.monotonic() - began:.1f} s")


def _submitters() -> list[tuple[User, Project]]:
    """Alice, and whoever of the demonstration has most jobs, each with a project of theirs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT u.username FROM scheduler_job j JOIN accounts_user u ON u.id = j.owner_id "
            "GROUP BY u.username ORDER BY COUNT(*) DESC, u.username LIMIT 3"
        )
        names = [name for (name,) in cursor.fetchall()]
    found = []
    for name in (*names, "alice"):
        user = person_named(name)
        assert user is not None
        project = visible_projects(user).order_by("pk").first()
        assert project is not None
        found.append((user, project))
    return found


def researcher() -> User:
    """Who has most jobs."""
    return _submitters()[0][0]


def _submit(people: list[tuple[User, Project]], jobs: int) -> list[int]:
    """Their numbers; everybody submits as many."""
    made: list[int] = []
    for turn, (user, project) in enumerate(people):
        specs = [_spec(project, number) for number in range(turn, jobs, len(people))]
        for first in range(0, len(specs), MAX_JOBS):
            found = submit_jobs(actor=user, specs=specs[first : first + MAX_JOBS])
            made += [one.job.pk for one in found]
    return made


def _spec(project: Project, number: int) -> JobSpec:
    return parse_spec(
        {
            "name": f"train-{number}",
            "project": project.path,
            "pool": POOL,
            "script": "torchrun --nproc-per-node=gpu train.py\n",
            "gpus_per_node": _SIZES[number % len(_SIZES)],
            "memory": "1GiB",
            "time_limit": f"{1 + number % 24}h",
            "labels": {"experiment": f"e{number % 7}"},
        }
    )


def _known(token: str) -> Node:
    node = authenticate_node(token)
    assert node is not None
    return node


def _fill_nodes(people: list[tuple[User, Project]], machines: list[Node]) -> None:
    """Jobs until no more start, and their nodes say that they run."""
    _submit(people, 2 * len(machines))
    _cycle(machines)
    for node in machines:
        asked = call_of(node).assignments
        call_of(
            node,
            *(
                AttemptReport(
                    fence=one.fence,
                    rank=one.rank,
                    state=AttemptState.RUNNING,
                    started_at=time.time(),
                )
                for one in asked
            ),
        )


def _cycle(machines: list[Node]) -> None:
    """The scheduler's own cycles, until one starts nothing."""
    for node in machines:
        call_of(node)
    scheduler = Scheduler(holder="bench")
    for _ in range(20):
        outcome = scheduler.run_cycle(timezone.now())
        tell(f"a cycle of {outcome.duration_ms:.0f} ms started {outcome.started}")
        if not outcome.started:
            break
    scheduler.release(timezone.now())
