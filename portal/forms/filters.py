"""What a list is narrowed to: the filter words, the period of a report, the page cursor."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from scheduler.spec import units
from scheduler.states import JobState

KEYS = ("state", "team", "project", "user", "pool", "set", "created")
STATE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "live": (JobState.STARTING, JobState.RUNNING, JobState.STOPPING),
    "waiting": (JobState.HELD, JobState.QUEUED),
    "finished": (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED),
}
MAX_QUERY = 512
MAX_PERIOD_DAYS = 3660
_WORD = re.compile(r'(?:[a-z]+:)?"[^"]*"|\S+')
_NAME = re.compile(r"[A-Za-z0-9@.+_/-]{1,150}")


@dataclass(frozen=True, slots=True)
class Chip:
    """One condition as shown: `without` is the query text that is left when it is removed."""

    key: str
    value: str
    without: str


@dataclass(slots=True)
class JobQuery:
    """The parsed text of the filter bar. With `problems`, the conditions are not to be used."""

    text: str = ""
    states: tuple[str, ...] = ()
    team: str = ""
    project: str = ""
    owner: str = ""
    pool: str = ""
    job_set: int = 0
    created_since: datetime | None = None
    words: str = ""
    chips: list[Chip] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def parse_job_query(text: str, *, now: datetime) -> JobQuery:
    """`state:running team:vision user:me some words` to conditions, or to problems in words."""
    query = JobQuery(text=" ".join(text.split()))
    if len(text) > MAX_QUERY:
        query.text = ""
        query.problems.append(f"The filter is longer than {MAX_QUERY} characters; shorten it.")
        return query
    if any(ord(char) < 32 and char not in "\t\r\n" for char in text):
        query.problems.append("The filter holds control characters; remove them.")
        return query
    words = _WORD.findall(query.text)
    plain: list[str] = []
    seen: set[str] = set()
    for position, word in enumerate(words):
        key, colon, value = word.partition(":")
        value = value.strip('"')
        if not colon or key not in KEYS:
            plain.append(word.strip('"'))
            continue
        if key in seen:
            query.problems.append(f"{key}: is given twice; join the values with a comma.")
            continue
        seen.add(key)
        rest = " ".join(words[:position] + words[position + 1 :])
        query.chips.append(Chip(key, value, rest))
        _apply(query, key, value, now)
    query.words = " ".join(plain)
    if plain:
        rest = " ".join(f"{chip.key}:{chip.value}" for chip in query.chips)
        query.chips.append(Chip("text", query.words, rest))
    return query


def _apply(query: JobQuery, key: str, value: str, now: datetime) -> None:
    if not value:
        query.problems.append(f"{key}: needs a value, such as {key}:{_EXAMPLES[key]}.")
    elif key == "state":
        _apply_states(query, value)
    elif key == "created":
        try:
            age = timedelta(seconds=units.parse_duration(value))
            query.created_since = now - age
        except (ValueError, OverflowError):
            query.problems.append(f"created: {value[:40]!r} is not an age; write it like 7d or 2h.")
    elif key == "set":
        if not re.fullmatch(r"[1-9][0-9]{0,17}", value, re.ASCII):
            query.problems.append(f"set: {value[:40]!r} is not a number; write it like set:5.")
        else:
            query.job_set = int(value)
    elif not _NAME.fullmatch(value):
        query.problems.append(
            f"{key}: {value[:40]!r} is not a name; write it like {key}:{_EXAMPLES[key]}."
        )
    else:
        setattr(query, "owner" if key == "user" else key, value)


_EXAMPLES = {
    "state": "running",
    "team": "vision",
    "project": "vision/digits",
    "user": "me",
    "pool": "default",
    "set": "5",
    "created": "7d",
}


def _apply_states(query: JobQuery, value: str) -> None:
    known = {str(state) for state in JobState}
    states: list[str] = []
    for word in value.lower().split(","):
        if word in STATE_GROUPS:
            states += STATE_GROUPS[word]
        elif word in known:
            states.append(word)
        else:
            choices = ", ".join([*STATE_GROUPS, *sorted(known)])
            query.problems.append(f"state: {word[:40]!r} is not a state; choose from {choices}.")
            return
    query.states = tuple(dict.fromkeys(states))


def unknown_parameters(given: Iterable[str], known: Iterable[str]) -> list[str]:
    """The parameters of a URL that a page does not know; shown as a notice, never an error."""
    return sorted({name[:40] for name in given} - set(known))


def write_cursor(pk: int) -> str:
    """An opaque mark of a place in a list that is ordered by falling id."""
    return base64.urlsafe_b64encode(f"before:{pk}".encode()).decode().rstrip("=")


def read_cursor(text: str) -> int | None:
    """The id in a mark; None for no mark. Raises ValueError for one that we did not write."""
    if not text:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not a place in this list") from None
    match = re.fullmatch(rb"before:([1-9][0-9]{0,18})", raw)
    if not match or int(match[1]) >= 2**63:
        raise ValueError("not a place in this list")
    return int(match[1])


@dataclass(slots=True)
class Period:
    """Whole days in UTC, both ends included, as people say it; `start`/`end` are half open."""

    first: date
    last: date
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def start(self) -> datetime:
        return datetime.combine(self.first, time.min, UTC)

    @property
    def end(self) -> datetime:
        return datetime.combine(self.last + timedelta(days=1), time.min, UTC)


def parse_period(first: str, last: str, *, today: date) -> Period:
    """From and to as ISO days; by default this month. Wrong ones are named and not used."""
    period = Period(today.replace(day=1), today)
    for name, text in (("from", first), ("to", last)):
        if not text:
            continue
        try:
            day = date.fromisoformat(text)
            if not 2000 <= day.year <= 2999 or len(text) != 10:
                raise ValueError
        except ValueError:
            period.problems[name] = f"{text[:20]!r} is not a day; write it like 2026-11-20."
            continue
        if name == "from":
            period.first = day
        else:
            period.last = day
    if not period.problems and period.last < period.first:
        period.problems["to"] = "The last day is before the first; swap them."
    elif (period.last - period.first).days > MAX_PERIOD_DAYS:
        period.problems["from"] = "A report covers at most ten years; choose a later first day."
    if period.problems:
        return Period(today.replace(day=1), today, period.problems)
    return period
