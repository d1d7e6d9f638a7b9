"""What a person reads when a value was refused."""

from __future__ import annotations

from typing import Any

from scheduler.spec.problems import SpecProblem

# Written by the server alone; named so that the refusal can say more than "unknown".
FORBIDDEN_FIELDS = frozenset(
    {"owner", "state", "fence", "team_id", "team", "id", "cost", "submitted_at", "owner_id"}
)
# Jobs see what their node shows them. Who asks for more is told so, and it is put on record.
MOUNTS = frozenset({"mounts", "volumes"})


def problem_of(item: Any) -> SpecProblem:
    """A problem as pydantic reports it, in our words; a field's own words come as `field|words`."""
    # An item of a list is named by its list: nobody counts arguments from zero.
    path = ".".join(part for part in item["loc"] if isinstance(part, str))
    kind, message = item["type"], str(item["msg"])
    context = item.get("ctx") or {}
    if kind == "extra_forbidden":
        name = path.rsplit(".", 1)[-1]
        if name in FORBIDDEN_FIELDS:
            words = "is set by Trainyard and must not be sent; remove it"
            return SpecProblem(path, words, "forbidden_field")
        if name in MOUNTS:
            words = "is not for jobs: their node decides what they see; remove it"
            return SpecProblem(path, words, "forbidden_field")
        words = "is not a field of a job; remove it or check the spelling"
        return SpecProblem(path, words, "unknown_field")
    if kind == "string_unicode":
        return SpecProblem(path, "holds a lone surrogate, which is no character; remove it")
    if kind == "missing":
        return SpecProblem(path, "is required")
    if kind == "value_error":
        message = str(context.get("error", message))
        field, _, rest = message.partition("|")
        if rest:
            return SpecProblem(field, rest)
        return SpecProblem(path or "job", message)
    if kind == "literal_error":
        return SpecProblem(path, f"must be one of {context.get('expected')}")
    if kind == "greater_than_equal":
        return SpecProblem(path, f"must be at least {context['ge']}")
    if kind == "less_than_equal":
        return SpecProblem(path, f"must be at most {context['le']}")
    return SpecProblem(path or "job", message[:1].lower() + message[1:])
