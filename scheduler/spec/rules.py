"""Which fields of a template a job may change, and how far.

Written a field and a rule: `tier: locked`, `gpus_per_node: 1..8`, `time_limit: ..12h`,
`pool: default, h100`. A field without a rule is free.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from scheduler.money import from_steps, steps_of
from scheduler.spec import units
from scheduler.spec.lines import in_one_line
from scheduler.spec.price import format_price, price
from scheduler.spec.problems import SpecInvalid, SpecProblem, given
from scheduler.spec.retrying.rules import write_lines
from scheduler.spec.schema import JobSpec
from scheduler.spec.values import format_milli, whole
from scheduler.spec.wording import problem_of

LOCKED = "locked"
MAX_RULES = 64
MAX_CHOICES = 32
RULE_HELP = "write locked, a range such as 1..8, or choices with commas"
_NEVER = frozenset({"apiVersion", "kind", "name"})
_Reader = tuple[Callable[[object], object], Callable[[int], str]]
_TIME: _Reader = (units.parse_duration, units.format_duration)
_SIZE: _Reader = (units.parse_size_mib, units.format_size_mib)
_COUNT: _Reader = (whole, str)
# In steps of money, which are whole.
_MONEY: _Reader = (
    lambda text: steps_of(price(text) or Decimal(0)),
    lambda steps: format_price(from_steps(steps)),
)
# Fields that can have a range, with how their figures are read and written.
RANGED: Mapping[str, _Reader] = {
    "nodes": _COUNT,
    "gpus_per_node": _COUNT,
    "cpus": _COUNT,
    "retries": _COUNT,
    # How often all of its rules together may try again.
    "retry_rules": _COUNT,
    "memory": _SIZE,
    "gpu_memory": _SIZE,
    "scratch": _SIZE,
    "time_limit": _TIME,
    "min_runtime": _TIME,
    # A job without one lies in no range.
    "max_cost": _MONEY,
}
# How a choice of other fields is written where it is more than its value in one line.
_WRITES: Mapping[str, Callable[[Any], str]] = {
    **{field: write for field, (_, write) in RANGED.items()},
    "retry_rules": write_lines,
    "fallback_after": units.format_duration,
    "disconnect_grace": units.format_duration,
    "gpu_milli": format_milli,
    "command": shlex.join,
    "session": lambda value: str(value["app"]),
}
Rules = dict[str, dict[str, Any]]


def read_rules(sent: Mapping[str, Any]) -> Rules:
    """Rules as they are kept: each `{"locked": True}`, `{"min": …, "max": …}` or `{"choices": …}`.

    Raises SpecInvalid with every one that makes no sense.
    """
    rules: Rules = {}
    problems: list[SpecProblem] = []
    for field, rule in list(sent.items())[:MAX_RULES]:
        try:
            rules[str(field)] = _read(str(field), rule)
        except ValueError as error:
            problems.append(SpecProblem(f"rules.{str(field)[:64]}", str(error)))
    if len(sent) > MAX_RULES:
        problems.append(SpecProblem("rules", f"are more than {MAX_RULES}"))
    if problems:
        raise SpecInvalid(problems)
    return rules


def read_rule_lines(text: str) -> dict[str, str]:
    """`field: rule` lines to what `read_rules` takes; raises SpecInvalid that names the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        field, colon, rule = line.partition(":")
        if not colon or not rule.strip():
            words = f"line {number}: write it as field: rule, such as gpus_per_node: 1..8"
            raise SpecInvalid([SpecProblem("rules", words)])
        if field.strip() in found:
            words = f"line {number}: {field.strip()[:64]} has two rules; keep one"
            raise SpecInvalid([SpecProblem("rules", words)])
        found[field.strip()] = rule.strip()
    return found


def written_rules(rules: Rules) -> dict[str, str]:
    """Each as `read_rules` takes it."""
    return {field: _written(field, rule) for field, rule in rules.items()}


def rule_words(rules: Rules) -> dict[str, str]:
    """Each for people: `locked`, `12h at most`, `1 to 8`, `urgent, normal`."""
    return {field: _in_words(field, rule) for field, rule in rules.items()}


def _in_words(field: str, rule: Mapping[str, Any]) -> str:
    written = _written(field, rule)
    if LOCKED in rule or "choices" in rule:
        return written
    least, _, most = written.partition("..")
    if field == "retry_rules":
        return f"tried again {least or 0} to {most or 'any number of'} times in all"
    if least and most:
        return f"{least} to {most}"
    return f"{least} at least" if least else f"{most} at most"


def rule_problems(rules: Rules, document: Mapping[str, Any], spec: JobSpec) -> list[SpecProblem]:
    """What of a job the rules of its template forbid; `document` is the template's."""
    held = spec.document()
    problems = []
    for field, rule in rules.items():
        value = held[field]
        if LOCKED in rule:
            wanted = document[field] if field in document else _default(field)
            if value != wanted:
                words = "is locked by the template; leave it as the template has it"
                problems.append(SpecProblem(field, words))
        elif "choices" in rule:
            if value not in rule["choices"]:
                known = _written(field, rule)
                problems.append(SpecProblem(field, f"must be one of {known}: so the template says"))
        elif not _is_within(field, rule, spec):
            allowed = _written(field, rule)
            problems.append(SpecProblem(field, f"must lie in {allowed}: so the template says"))
    if "pool" in rules and "other_pools" not in rules:
        problems += _pools_beyond(rules["pool"], document.get("other_pools", []), held)
    return problems


def _pools_beyond(
    rule: Mapping[str, Any], own: list[str], held: Mapping[str, Any]
) -> list[SpecProblem]:
    """A rule for the pool holds for those as well that the job may choose from, unless they have
    their own; `own` are the template's."""
    others, allowed = held["other_pools"], rule.get("choices", ())
    if others == own or ("choices" in rule and set(others) <= set(allowed)):
        return []
    words = f"must be of {', '.join(allowed)}" if allowed else "are locked with the pool"
    return [SpecProblem("other_pools", f"{words}: so the template says")]


def _is_within(field: str, rule: Mapping[str, int], spec: JobSpec) -> bool:
    if field == "max_cost":
        if spec.max_cost is None:
            return False
        most = steps_of(spec.max_cost)
    else:
        most = spec.tries_by_rules if field == "retry_rules" else int(getattr(spec, field))
    least = spec.nodes.least if field == "nodes" else most
    return rule.get("min", least) <= least and most <= rule.get("max", most)


def _read(field: str, rule: Any) -> dict[str, Any]:
    if field not in JobSpec.model_fields or field in _NEVER:
        raise ValueError(
            "is not a field that can have a rule; fields are those of a spec, such as time_limit"
        )
    read = _of_line(field, rule) if isinstance(rule, str) else _choices(field, rule)
    # It is changed and compared as a line, so it has to be one.
    if not _is_line(field, read):
        raise ValueError(
            "has a choice that cannot be written in one line with others; "
            "write choices without commas and line ends, or lock the field"
        )
    return read


def _is_line(field: str, rule: Mapping[str, Any]) -> bool:
    written = _written(field, rule)
    try:
        return written.splitlines() == [written] and _of_line(field, written.strip()) == rule
    except ValueError:
        return False


def _of_line(field: str, rule: str) -> dict[str, Any]:
    if rule.strip() == LOCKED:
        return {LOCKED: True}
    if ".." in rule:
        return _range(field, rule)
    return _choices(field, [one.strip() for one in rule.split(",")])


def _choices(field: str, choices: Any) -> dict[str, Any]:
    if not isinstance(choices, (list, tuple)) or not choices or len(choices) > MAX_CHOICES:
        raise ValueError(f"{given(choices)} is no rule; {RULE_HELP}")
    return {"choices": [_value(field, one) for one in choices]}


def _range(field: str, rule: str) -> dict[str, int]:
    if field not in RANGED:
        raise ValueError("can be locked or have choices, but no range")
    read = RANGED[field][0]
    least, _, most = (part.strip() for part in rule.partition(".."))
    found = {name: read(part) for name, part in (("min", least), ("max", most)) if part}
    numbers = {name: value for name, value in found.items() if isinstance(value, int)}
    if not numbers or numbers.get("min", 0) > numbers.get("max", numbers.get("min", 0)):
        raise ValueError(f"{given(rule)} is no range; {RULE_HELP}")
    return numbers


@cache
def _adapter(field: str) -> TypeAdapter[Any]:
    info = JobSpec.model_fields[field]
    metadata = tuple(info.metadata)
    # Rebuilt from its parts, since a model hands out a field's type and its checks apart.
    kind: Any = Annotated[(info.annotation, *metadata)] if metadata else info.annotation
    return TypeAdapter(kind)


def _value(field: str, value: Any) -> Any:
    """One value of a field as `JobSpec.document` holds it; raises ValueError."""
    adapter = _adapter(field)
    try:
        return adapter.dump_python(adapter.validate_python(value), mode="json")
    except ValidationError as error:
        raise ValueError(problem_of(error.errors(include_url=False)[0]).message) from None


def _default(field: str) -> Any:
    default = JobSpec.model_fields[field].get_default(call_default_factory=True)
    return _adapter(field).dump_python(default, mode="json")


def _written(field: str, rule: Mapping[str, Any]) -> str:
    if LOCKED in rule:
        return LOCKED
    if "choices" in rule:
        return ", ".join(_choice(field, one) for one in rule["choices"])
    write = RANGED[field][1]
    return "..".join(write(rule[end]) if end in rule else "" for end in ("min", "max"))


def _choice(field: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    # A count of nodes may be a text: the fewest and the most.
    if field in _WRITES and not isinstance(value, str):
        return _WRITES[field](value)
    return in_one_line(value)
