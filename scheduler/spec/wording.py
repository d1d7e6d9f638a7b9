"""What a person reads when a value was refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scheduler.spec import units
from scheduler.spec.problems import SpecProblem, given

# Written by the server alone; named so that the refusal can say more than "unknown".
FORBIDDEN_FIELDS = frozenset(
    {"owner", "state", "fence", "team_id", "team", "id", "cost", "submitted_at", "owner_id"}
)
# Jobs see what their node shows them. Who asks for more is told so, and it is put on record.
MOUNTS = frozenset({"mounts", "volumes"})
_DURATIONS = frozenset(
    {"time_limit", "min_runtime", "fallback_after", "disconnect_grace", "grace", "idle_stop"}
)
_SIZES = frozenset({"memory", "gpu_memory", "scratch"})
# What kind of value a field takes, by the kind of pydantic's complaint.
_KINDS: Mapping[str, str] = {
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "names with their values",
    "model_type": "names with their values",
    "model_attributes_type": "names with their values",
    "tuple_type": "a list",
    "list_type": "a list",
}
_OWN = re.compile(r"([A-Za-z_.]+)\|(.+)", re.DOTALL)


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
        if own := _OWN.fullmatch(message):
            return SpecProblem(own[1], own[2])
        return SpecProblem(path or "job", message)
    # The values of variables may be secrets: they are not repeated.
    sent = "" if path.startswith("env") else f", not {given(item.get('input'))}"
    if kind == "literal_error":
        return SpecProblem(path, f"must be one of {context.get('expected')}{sent}")
    if kind in _KINDS:
        return SpecProblem(path or "job", f"must be {_KINDS[kind]}{sent}")
    if kind in ("greater_than_equal", "less_than_equal"):
        word, bound = ("least", "ge") if kind == "greater_than_equal" else ("most", "le")
        limit, found = (_written(path, number) for number in (context[bound], item["input"]))
        return SpecProblem(path, f"must be at {word} {limit}, not {found}")
    return SpecProblem(path or "job", message[:1].lower() + message[1:])


def _written(path: str, number: Any) -> str:
    """A bound as people write the values of this field."""
    name = path.rpartition(".")[2]
    if not isinstance(number, int) or not 0 <= number < 2**63:
        return given(number)
    if name in _DURATIONS:
        return units.format_duration(number)
    return units.format_size_mib(number) if name in _SIZES else str(number)
