"""What the terms of a filter mean for jobs: each is checked, and what is wrong is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from portal.forms.grammar.terms import Filter, FilterError, Term, parse, write
from scheduler.selectors.tables.narrowing import JobFilter
from scheduler.spec import units
from scheduler.states import JobState

STATE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "live": (JobState.STARTING, JobState.RUNNING, JobState.STOPPING),
    "waiting": (JobState.HELD, JobState.QUEUED),
    "finished": (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED),
}
EXAMPLES: Mapping[str, str] = {
    "state": "queued,running",
    "team": "vision",
    "project": "vision/digits",
    "user": "me",
    "pool": "default",
    "flavor": "h100",
    "gpus": ">=8",
    "label": "exp=llm3",
    "set": "5",
    "schedule": "3",
    "group": "eval/main",
    "created": "7d",
    "ended": "24h",
    "finish_by": "12h",
    "warnings": ">0",
}
KEYS = tuple(EXAMPLES)
MOST = 1_000_000
NAME = re.compile(r"[A-Za-z0-9@.+_/-]{1,150}")
_AMOUNT = re.compile(r"(>=|<=|>|<|=)?(\d{1,7})", re.ASCII)
_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]{0,62})(?:=(.{0,128}))?", re.ASCII)
_FLAVOR = re.compile(r"[A-Za-z0-9 ._+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Chip:
    """One condition as shown: `without` is the filter's text when it is taken away."""

    key: str
    value: str
    without: str


@dataclass(slots=True)
class JobQuery:
    """A filter as read. With `problems` its `wanted` is not to be used."""

    text: str = ""
    wanted: JobFilter = field(default_factory=JobFilter)
    chips: list[Chip] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def has_terms(self) -> bool:
        """Whether it says more than words to look for."""
        return any(chip.key != "text" for chip in self.chips)


def parse_job_query(text: str, *, now: datetime) -> JobQuery:
    """`state:running team:vision user:me some words` to conditions, or to problems in words."""
    try:
        found = parse(text)
    except FilterError as error:
        return JobQuery(text=" ".join(text.split())[:512], problems=[str(error)])
    query = JobQuery(text=write(found))
    conditions: dict[str, object] = {"text": found.text}
    seen: set[str] = set()
    for term in found.terms:
        if not term.key:
            continue
        if term.key in seen:
            remedy = "join the values with a comma" if term.key == "state" else "keep one"
            query.problems.append(f"{term.key}: is given twice; {remedy}.")
            continue
        seen.add(term.key)
        query.chips.append(Chip(term.key, term.value, write(found.without(term))))
        try:
            conditions |= _meaning(term, now)
        except FilterError as error:
            query.problems.append(str(error))
    if found.text:
        rest = Filter(tuple(term for term in found.terms if term.key))
        query.chips.append(Chip("text", found.text, write(rest)))
    if not query.problems:
        query.wanted = JobFilter(**conditions)  # type: ignore[arg-type]
    return query


def _meaning(term: Term, now: datetime) -> dict[str, object]:
    if term.key not in EXAMPLES:
        raise FilterError(
            f"{term.key[:40]}: is not a term here; choose from {', '.join(KEYS)}, "
            f'or look for the text with "{str(term)[:60]}" in quotes.'
        )
    if not term.value:
        raise _refusal(term, "needs a value")
    return _READERS.get(term.key, _name)(term, now)


def _refusal(term: Term, what: str) -> FilterError:
    return FilterError(f"{term.key}: {what}; write it like {term.key}:{EXAMPLES[term.key]}.")


def _name(term: Term, now: datetime) -> dict[str, object]:
    if not NAME.fullmatch(term.value):
        raise _refusal(term, f"{term.value[:40]!r} is not a name")
    return {"owner" if term.key == "user" else term.key: term.value}


def _states(term: Term, now: datetime) -> dict[str, object]:
    known = {str(state) for state in JobState}
    states: list[str] = []
    for word in term.value.lower().split(","):
        if word not in STATE_GROUPS and word not in known:
            choices = ", ".join([*STATE_GROUPS, *sorted(known)])
            raise FilterError(f"state: {word[:40]!r} is not a state; choose from {choices}.")
        states += STATE_GROUPS.get(word, (word,))
    return {"states": tuple(dict.fromkeys(states))}


def _age(term: Term, now: datetime) -> dict[str, object]:
    try:
        since = now - timedelta(seconds=units.parse_duration(term.value))
    except (ValueError, OverflowError):
        raise _refusal(term, f"{term.value[:40]!r} is not an age") from None
    return {"submitted_since" if term.key == "created" else "ended_since": since}


def _until(term: Term, now: datetime) -> dict[str, object]:
    """What has not ended and has to be finished within this time."""
    try:
        return {"finish_until": now + timedelta(seconds=units.parse_duration(term.value))}
    except (ValueError, OverflowError):
        raise _refusal(term, f"{term.value[:40]!r} is no length of time") from None


def _number(term: Term, now: datetime) -> dict[str, object]:
    if not re.fullmatch(r"[1-9][0-9]{0,17}", term.value, re.ASCII):
        raise _refusal(term, f"{term.value[:40]!r} is not a number")
    return {"job_set" if term.key == "set" else term.key: int(term.value)}


def _gpus(term: Term, now: datetime) -> dict[str, object]:
    return {"gpus": _bounds(term, "GPUs")}


def _warnings(term: Term, now: datetime) -> dict[str, object]:
    return {"warnings": _bounds(term, "warnings")}


def _bounds(term: Term, of: str) -> tuple[int, int]:
    """`8`, `>=8`, `4..16` as the least and the most."""
    low, dots, high = term.value.partition("..")
    if dots and low.isascii() and high.isascii() and low.isdigit() and high.isdigit():
        return int(low[:8]), int(high[:8])
    match = _AMOUNT.fullmatch(term.value)
    if match is None:
        raise _refusal(term, f"{term.value[:40]!r} is no number of {of}")
    number = int(match[2])
    return {
        ">=": (number, MOST),
        ">": (number + 1, MOST),
        "<=": (0, number),
        "<": (0, number - 1),
    }.get(match[1] or "=", (number, number))


def _flavor(term: Term, now: datetime) -> dict[str, object]:
    if not _FLAVOR.fullmatch(term.value):
        raise _refusal(term, f"{term.value[:40]!r} is not a model of GPU")
    return {"gpu_model": term.value}


def _label(term: Term, now: datetime) -> dict[str, object]:
    match = _LABEL.fullmatch(term.value)
    if match is None:
        raise _refusal(term, f"{term.value[:40]!r} is not a label")
    return {"label": (match[1], match[2])}


_READERS: Mapping[str, Callable[[Term, datetime], dict[str, object]]] = {
    "state": _states,
    "created": _age,
    "ended": _age,
    "finish_by": _until,
    "set": _number,
    "schedule": _number,
    "gpus": _gpus,
    "warnings": _warnings,
    "flavor": _flavor,
    "label": _label,
}
