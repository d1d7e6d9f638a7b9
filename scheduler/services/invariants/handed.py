"""Rows of what was handed in, and the secrets that jobs were handed, for invariants."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from django.db.models import Count, Max, Q

from scheduler.invariants.rows import Row, Rows, plain
from scheduler.models import Attempt, Job, JobEvent, JobSet, Placement, Secret, SubmitKey
from scheduler.services.invariants.reading import ROWS
from scheduler.services.secrets.cipher import Unsealable, unseal
from scheduler.services.secrets.keeping import place_of
from scheduler.states import BY_SCHEDULER, JobState

SETS = 200


def sets_of_tasks(since: datetime | None) -> Iterator[Rows]:
    """Arrays, or those handed in since then, with how many tasks and indexes they have."""
    sets = JobSet.objects.order_by("pk")
    if since is not None:
        sets = sets.filter(created_at__gte=since)
    last = 0
    while part := list(sets.filter(pk__gt=last).values("id", "size")[:SETS]):
        last = part[-1]["id"]
        tasks = Job.objects.filter(job_set__in=[row["id"] for row in part]).order_by()
        found = {
            of: {"tasks": count, "indexes": indexes}
            for of, count, indexes in tasks.values_list("job_set").annotate(
                Count("pk"), Count("array_index", distinct=True)
            )
        }
        none = {"tasks": 0, "indexes": 0}
        yield Rows({"jobset": [{**row, **found.get(row["id"], none)} for row in part]})


def doubled_keys() -> Iterator[Rows]:
    """Keys that a person gave to several jobs, and one row for all others."""
    counted = SubmitKey.objects.order_by().values("user_id", "key").annotate(jobs=Count("pk"))
    doubled = counted.filter(jobs__gt=1).values("user_id", "jobs")
    once = [{"user_id": 0, "jobs": 1}] if SubmitKey.objects.exists() else []
    yield Rows({"keycount": [*once, *doubled[:ROWS]]})


def unseen_jobs() -> Iterator[Rows]:
    """Jobs in line that wait for the scheduler alone, with when something last befell them: who
    changes one that waits has it looked at anew."""
    unseen = Job.objects.filter(state=JobState.QUEUED, wait_reason__in=sorted(BY_SCHEDULER))
    moved = unseen.order_by().annotate(moved_at=Max("events__at"))
    found = moved.values("id", "state", "wait_reason", "moved_at").iterator(ROWS)
    while part := [plain(row) for row in islice(found, ROWS)]:
        yield Rows({"job": part})


def told_of_secrets(jobs: Sequence[int]) -> Rows:
    """Of these jobs those that name secrets that can be opened, and what was written of them.

    A value lives no longer than the check: neither it nor a form of it is kept or told.
    """
    needles = list(_needles(jobs))
    named = sorted({needle["job_id"] for needle in needles})
    attempts = Attempt.objects.filter(job__in=named).order_by()
    ranks = Placement.objects.filter(attempt__job__in=named).order_by()
    said = ("end_facts", "triage", "checkpoint_problem", "resume_problem")
    events = JobEvent.objects.filter(job__in=named).order_by()
    return Rows(
        {
            "needle": needles,
            "jobevent": list(events.values("id", "job_id", "detail")) if named else [],
            "attempt": list(attempts.values("id", "job_id", *said)) if named else [],
            "placement": list(ranks.values("id", "attempt_id", "detail")) if named else [],
        }
    )


def _needles(jobs: Sequence[int]) -> Iterator[Row]:
    named = Job.objects.filter(pk__in=jobs).order_by()
    names = named.values_list("pk", "owner_id", "project_id", "spec__secrets")
    wanted = [row for row in names if row[3]]
    owners, projects = {row[1] for row in wanted}, {row[2] for row in wanted}
    kept: dict[str, list[Secret]] = defaultdict(list)
    asked = {name for row in wanted for name in row[3]}
    if asked:
        theirs = Q(owner__in=owners) | Q(project__in=projects)
        for secret in Secret.objects.filter(theirs, name__in=asked).select_related("project"):
            kept[secret.name].append(secret)
    for pk, owner, project, mine in wanted:
        for secret in (one for name in mine for one in kept[name]):
            if secret.owner_id == owner or secret.project_id == project:
                yield from ({"job_id": pk, "value": value} for value in _forms(secret))


def _forms(secret: Secret) -> Iterator[str]:
    try:
        value = unseal(secret.sealed, place_of(secret)).decode()
    except Unsealable:
        return
    # As the columns that hold JSON show it.
    yield json.dumps(value, ensure_ascii=False)[1:-1]
