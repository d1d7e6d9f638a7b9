"""What a template lets a job be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.models import Job, TemplateVersion
from scheduler.selectors.composing.templates import uses_of
from scheduler.services.submitting.columns import DEFAULT_POOL
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.rules import rule_problems

# What a task of an array has of its own, whatever the array has: its clone is one job, which ends
# nothing of that array as the newest of its group.
_OF_TASKS: Mapping[str, Any] = {"array": None, "group": "", "group_policy": "wait"}


def refuse_outside(version: TemplateVersion, spec: JobSpec, cloned_from: Job | None = None) -> None:
    """Raises SpecInvalid when a job breaks the rules of a version, or the template is retired. One
    statement where a clone has no group, or is no array, though the rules say so."""
    if "choices" in version.rules.get("pool", {}) and not spec.pool:
        spec = spec.model_copy(update={"pool": DEFAULT_POOL})
    if version.template.retired_at is not None:
        words = f"{version.template.slug} is retired; start from another template or from none"
        raise SpecInvalid([SpecProblem("template", words)])
    problems: Sequence[SpecProblem] = rule_problems(version.rules, version.document, spec)
    if problems and cloned_from is not None:
        problems = _not_as_its_task(problems, version, spec, cloned_from)
    if problems:
        raise SpecInvalid(problems)


def _not_as_its_task(
    problems: Sequence[SpecProblem], version: TemplateVersion, spec: JobSpec, cloned_from: Job
) -> Sequence[SpecProblem]:
    """Those that a job of this version, which is a task or a clone of one, does not have itself."""
    held, own = spec.document(), JobSpec.model_validate(cloned_from.spec).document()
    kept = {name for name, alone in _OF_TASKS.items() if held[name] == own[name] == alone}
    left = [one for one in problems if one.field not in kept]
    if len(left) == len(problems):
        return problems
    used = uses_of(cloned_from.pk, cloned_from.job_set_id).filter(version=version)
    return left if used.exists() else problems
