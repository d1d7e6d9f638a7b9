"""What the template of a job says to changes of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet

from accounts.models import User
from accounts.statements import AskedOnce
from scheduler.models import Job, TemplateUse
from scheduler.services.errors import Invalid
from scheduler.spec import JobSpec, SpecInvalid
from scheduler.spec.rules import rule_problems


def follow_template(job: Job, spec: JobSpec, asked: Collection[str]) -> None:
    """Raises SpecInvalid where the job's template locks or bounds one of these fields."""
    for rules, document in RULES.read(job.pk):
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


def _rules_of(job: int) -> QuerySet[TemplateUse, tuple[Any, ...]]:
    uses = TemplateUse.objects.filter(job=job).order_by()
    return uses.values_list("version__rules", "version__document")


RULES = AskedOnce(_rules_of)
