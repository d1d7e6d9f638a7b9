"""Many jobs at once, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from accounts.models import User
from scheduler.services.jobs import MAX_KEY, Submitted, submit_job
from scheduler.services.submitting.naming import in_order, with_numbers
from scheduler.services.submitting.targets import Seen
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem

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

    They may wait for each other by name (`depends_on`); a circle is refused and printed.
    With a key the n-th job is remembered under `key:n`, so repeating the call repeats nothing.
    """
    if len(specs) > MAX_JOBS:
        raise SpecInvalid([SpecProblem("jobs", f"has {len(specs)} jobs; send at most {MAX_JOBS}")])
    if idempotency_key and len(idempotency_key) > MAX_KEY - len(":100"):
        limit = MAX_KEY - len(":100")
        raise SpecInvalid(
            [SpecProblem("idempotency_key", f"is longer than the {limit} characters of a bulk")]
        )
    _refuse_arrays(specs)
    submitted: dict[int, Submitted] = {}
    number_of: dict[str, int] = {}
    seen = Seen()
    for index in in_order(specs):
        key = f"{idempotency_key}:{index}" if idempotency_key else ""
        spec = with_numbers(specs[index], number_of)
        try:
            done = submit_job(actor=actor, spec=spec, idempotency_key=key, now=now, seen=seen)
        except SpecInvalid as error:
            raise SpecInvalid(
                [SpecProblem(f"jobs[{index}].{one.field}", one.message) for one in error.problems]
            ) from None
        submitted[index] = done
        number_of[spec.name] = done.job.pk
    return [submitted[index] for index in range(len(specs))]


def _refuse_arrays(specs: Sequence[JobSpec]) -> None:
    words = "is one of several jobs; submit an array by itself"
    problems = [
        SpecProblem(f"jobs[{index}].array", words)
        for index, spec in enumerate(specs)
        if spec.array is not None
    ]
    if problems:
        raise SpecInvalid(problems)
