"""Many jobs at once, all or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import User
from scheduler.models import Job, SubmitKey
from scheduler.services.jobs import MAX_KEY, Submitted, digest_of, submit_job
from scheduler.services.submitting.ahead import look_ahead
from scheduler.services.submitting.groups import lock_groups, lock_person_for
from scheduler.services.submitting.naming import in_order, with_numbers
from scheduler.services.submitting.opening import Opening, Target, check_job, write_jobs
from scheduler.services.submitting.order import lock_arrays, lock_jobs
from scheduler.services.submitting.targets import Seen, resolve_target
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.order import MAX_TASKS

MAX_JOBS = 100


@transaction.atomic
def submit_jobs(
    *,
    actor: User,
    specs: Sequence[JobSpec],
    idempotency_key: str = "",
    now: datetime | None = None,
) -> list[Submitted]:
    """Accept all of `specs`, at most MAX_JOBS, or none; problems are named `jobs[3].field`.

    They may wait for each other by name (`depends_on`), for all tasks of what is an array; a circle
    is refused and printed. Of an array the first task is returned.
    With a key the n-th job is remembered under `key:n`, so repeating the call repeats nothing.
    """
    if len(specs) > MAX_JOBS:
        raise SpecInvalid([SpecProblem("jobs", f"has {len(specs)} jobs; send at most {MAX_JOBS}")])
    if idempotency_key and len(idempotency_key) > MAX_KEY - len(":100"):
        limit = MAX_KEY - len(":100")
        raise SpecInvalid(
            [SpecProblem("idempotency_key", f"is longer than the {limit} characters of a bulk")]
        )
    _refuse_too_many_tasks(specs)
    if not any(spec.group for spec in specs):
        lock_person_for(actor, specs)
        lock_arrays(actor, specs)
        lock_jobs(actor, specs)
    now = now or timezone.now()
    keys = [f"{idempotency_key}:{row}" for row in range(len(specs))] if idempotency_key else []
    if not keys or not SubmitKey.objects.filter(user=actor, key__in=keys).exists():
        try:
            with transaction.atomic():
                return _submit_together(actor, specs, keys, now)
        except IntegrityError:
            if not keys:
                raise
    # The keys, or some of them, came before or race us just now: their jobs are the answer.
    return _submit_each(actor, specs, keys, now)


def _submit_together(
    actor: User, specs: Sequence[JobSpec], keys: Sequence[str], now: datetime
) -> list[Submitted]:
    """All checked first, then written at once.

    What must see the jobs before it, one that depends on others or whose waiting jobs are capped,
    has them written first.
    """
    seen = Seen()
    lock_groups(actor, specs, seen)
    look_ahead(seen, actor, specs)
    opened: dict[int, tuple[Opening, Job]] = {}
    job_of: dict[str, Job] = {}
    checked: dict[int, Opening] = {}

    def write() -> None:
        jobs = write_jobs(list(checked.values()))
        for (row, opening), job in zip(checked.items(), jobs, strict=True):
            opened[row] = opening, job
            job_of[opening.spec.name] = job
        checked.clear()

    for row in in_order(specs):
        with _naming(row):
            project, queue = resolve_target(actor, specs[row], now, seen)
            if checked and (specs[row].depends_on or seen.has_cap(project)):
                write()
            target = Target(actor, project, queue, now)
            checked[row] = check_job(target, with_numbers(specs[row], job_of), seen)
    write()
    in_rows = [opened[row] for row in range(len(specs))]
    SubmitKey.objects.bulk_create(
        SubmitKey(
            user=actor, key=key, request_hash=digest_of(opening.spec), job=job, created_at=now
        )
        for key, (opening, job) in zip(keys, in_rows, strict=False)
    )
    return [Submitted(job, is_new=True) for _, job in in_rows]


def _submit_each(
    actor: User, specs: Sequence[JobSpec], keys: Sequence[str], now: datetime
) -> list[Submitted]:
    submitted: dict[int, Submitted] = {}
    job_of: dict[str, Job] = {}
    seen = Seen()
    lock_groups(actor, specs, seen)
    for row in in_order(specs):
        spec = with_numbers(specs[row], job_of)
        with _naming(row):
            key = keys[row] if keys else ""
            done = submit_job(actor=actor, spec=spec, idempotency_key=key, now=now, seen=seen)
        submitted[row] = done
        job_of[spec.name] = done.job
    return [submitted[row] for row in range(len(specs))]


@contextmanager
def _naming(row: int) -> Iterator[None]:
    """Problems of the block are those of this job of the bulk."""
    try:
        yield
    except SpecInvalid as error:
        raise SpecInvalid(
            [replace(one, field=f"jobs[{row}].{one.field}") for one in error.problems]
        ) from None


def _refuse_too_many_tasks(specs: Sequence[JobSpec]) -> None:
    """All are written in one transaction, which others wait for: as many as one array may have."""
    tasks = sum(len(spec.array.indexes) for spec in specs if spec.array is not None)
    if tasks > MAX_TASKS:
        words = f"have {tasks} tasks in all; at most {MAX_TASKS}, so submit an array by itself"
        raise SpecInvalid([SpecProblem("jobs", words)])
