"""What the template of a job says to changes of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from accounts.models import User
from accounts.statements import AskedOnce
from scheduler.models import Job, TemplateUse
from scheduler.selectors.composing.templates import uses_of
from scheduler.services.errors import Invalid
from scheduler.spec import JobSpec, SpecInvalid
from scheduler.spec.rules import rule_problems


def follow_template(job: Job, spec: JobSpec, asked: Collection[str]) -> None:
    """Raises SpecInvalid where the job's template locks or bounds one of these fields."""
    asked_once, (which,) = asked_of(job)
    for rules, document in asked_once.read(which):
        problems = rule_problems(rules, document, spec)
        if found := [one for one in problems if one.field in asked]:
            raise SpecInvalid(found)


def refuse_by_template(actor: User, job: Job, field: str, value: object) -> None:
    """Raises Invalid where the template of one's own job forbids it this value of a field.

    Who changes a job of others, a lead or an operator, is not held by what its owner chose.
    """
    if actor.pk != job.owner_id:
        return
    spec = JobSpec.model_validate(job.spec).model_copy(update={field: value})
    try:
        follow_template(job, spec, {field})
    except SpecInvalid as refused:
        raise Invalid(f"{refused}.", field=field) from None


def asked_of(job: Job) -> tuple[AskedOnce, tuple[int]]:
    """What reads the rules that hold for it, and of which job or array."""
    return (_OF_ARRAY, (job.job_set_id,)) if job.job_set_id else (_OF_JOB, (job.pk,))


def _of_job(job: int) -> QuerySet[TemplateUse, tuple[Any, ...]]:
    return _rules(uses_of(job, None))


def _of_array(job_set: int) -> QuerySet[TemplateUse, tuple[Any, ...]]:
    return _rules(uses_of(0, job_set))


def _rules(uses: QuerySet[TemplateUse]) -> QuerySet[TemplateUse, tuple[Any, ...]]:
    return uses.order_by().values_list("version__rules", "version__document")


_OF_JOB, _OF_ARRAY = AskedOnce(_of_job), AskedOnce(_of_array)
