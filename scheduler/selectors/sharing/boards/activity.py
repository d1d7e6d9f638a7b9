"""What goes on in a team, in three statements: what was used, is open or failed, what idles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import (
    BigIntegerField,
    CharField,
    Count,
    DateTimeField,
    F,
    FloatField,
    Min,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce

from accounts.models import Project, User
from accounts.statements import Null
from scheduler.models import Job, UsageEntry
from scheduler.money import steps_per_s
from scheduler.selectors.sharing.boards.little import doing_little
from scheduler.selectors.sharing.reach import projects_of
from scheduler.selectors.sharing.reckoning import LOOK_BACK
from scheduler.selectors.sharing.use import PERSON, counted_upto, parts_of_use
from scheduler.states import (
    CHECK_TITLES,
    LIVE_JOB_STATES,
    WAITING_JOB_STATES,
    JobState,
    WaitReason,
)

# A job whose GPUs did less on average does nothing.
IDLE_PERCENT = 5.0
FAILED_SINCE = timedelta(days=7)
MOST_SHOWN = 10


@dataclass(slots=True)
class Person:
    """What somebody runs, has waiting or held, and used in the last four weeks.

    `waiting` and `held` are jobs, apart; `gpus` are those of what runs.
    """

    name: str
    running: int = 0
    gpus: int = 0
    waiting: int = 0
    held: int = 0
    used_gpu_s: int = 0


@dataclass(frozen=True, slots=True)
class Idle:
    """A running job whose GPUs do little: the evidence is `readings` of them since `since`."""

    job: int
    name: str
    owner: str
    email: str
    gpus: int
    mean_percent: float
    highest_percent: float
    readings: int
    since: datetime

    @property
    def is_idle(self) -> bool:
        """Whether it does nothing at all, else only little."""
        return self.mean_percent < IDLE_PERCENT


@dataclass(slots=True)
class Use:
    """GPU-seconds by day, and steps of money; of the last weeks also by person."""

    seconds: Counter[date] = field(default_factory=Counter)
    money: Counter[date] = field(default_factory=Counter)
    of_person: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Wait:
    """Jobs of one person that wait or are held for the same thing, and since when the first does.

    `what` is empty before the scheduler has looked at them.
    """

    name: str
    what: str
    is_held: bool
    jobs: int
    gpus: int
    since: datetime


@dataclass(slots=True)
class Jobs:
    """Open jobs by state and person, and the ends of those that failed lately."""

    states: Counter[str] = field(default_factory=Counter)
    gpus: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    people: dict[str, Person] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)


@dataclass(slots=True)
class Activity:
    """`idle` is empty where it was not asked for."""

    use: Use = field(default_factory=Use)
    jobs: Jobs = field(default_factory=Jobs)
    idle: list[Idle] = field(default_factory=list)

    @property
    def idlest(self) -> Sequence[Idle]:
        """Those that do least."""
        return sorted(self.idle, key=lambda one: (one.mean_percent, one.job))[:MOST_SHOWN]


# Where what is looked at is not what lets a job go.
_BY_HAND = {
    WaitReason.HELD_BY_USER: "Release by hand",
    WaitReason.HELD_BY_ADMIN: "Release by an operator",
    WaitReason.PAUSED: "Resume by hand",
    WaitReason.POOL_CLOSED: "Queue to be resumed",
}
_TEXTS = ("what_", "state_", "word_")
_COUNTS = ("owner_", "job_", "count_", "more")
_COLUMNS = (*_TEXTS, *_COUNTS, "at_", "price_", "mean", "most_")
_OWNER = _COLUMNS.index("owner_")
# What idles by the columns that all rows have.
_OF_IDLE = {
    "job": "job_", "name": "word_", "owner": "owner_", "gpus": "count_", "readings": "more",
    "since": "at_", "mean": "mean", "highest": "most_",
}  # fmt: skip
# Typed, as PostgreSQL wants all parts of a union alike; nothing is grouped by them.
_EMPTY: dict[str, Combinable] = {
    **{name: Value("", output_field=CharField()) for name in _TEXTS},
    **{name: Value(0, output_field=BigIntegerField()) for name in _COUNTS},
    "at_": Null(DateTimeField()),
    "price_": Null(UsageEntry._meta.get_field("unit_price")),
    "mean": Null(FloatField()),
    "most_": Null(FloatField()),
}


def read_activity(team_id: int, *, since: datetime | None, now: datetime, leads: bool) -> Activity:
    """Of a team and all below it; use by UTC day since a moment, if one is named.

    What idles is for who leads it; others see people and jobs of the team's own projects alone.
    """
    counted, projects = counted_upto(), projects_of(team_id)
    told = projects if leads else Project.objects.filter(team=team_id).order_by()
    lately = parts_of_use(told, since=now - LOOK_BACK, until=now, counted=counted, by=PERSON)
    parts = [_open(told), _failed(told, now), *map(_used_by, lately)]
    if since is not None:
        found = parts_of_use(projects, since=since, until=now, counted=counted)
        parts.extend(map(_used, found))
    if leads:
        parts.extend(map(_idle, doing_little(team_id, now, _OF_IDLE)))
    rows = list(parts[0].union(*parts[1:], all=True))
    # Joined to each row above, people would make the databases begin with them.
    people = User.objects.in_bulk({row[_OWNER] for row in rows if row[_OWNER]})
    activity = Activity()
    for what, state, word, owner, job, count, more, at, price, mean, most in rows:
        who = people.get(owner)
        name = who.get_username() if who else ""
        shown = (who.display_name if who else "") or name
        if what == "use":
            activity.use.seconds[at.date()] += count
            activity.use.money[at.date()] += count * steps_per_s(price)
        elif what == "user":
            activity.use.of_person[name] += count
            activity.use.names[name] = shown
        elif what == "job":
            _add_jobs(activity.jobs, name, shown, (state, word, count, more))
            if state in WAITING_JOB_STATES:
                wait = Wait(shown, _waited_for(word), state == JobState.HELD, count, more, at)
                activity.jobs.waits.append(wait)
        else:
            email = who.email if who else ""
            activity.idle.append(Idle(job, word, shown, email, count, mean, most, more, at))
    return activity


def _waited_for(reason: str) -> str:
    known = WaitReason(reason) if reason in set(WaitReason) else None
    return _BY_HAND.get(known) or CHECK_TITLES[known] if known else ""


def _shaped(
    rows: QuerySet[Any], what: str, keys: Mapping[str, Any], sums: Mapping[str, Any]
) -> QuerySet[Any]:
    """Rows of the one shape: grouped by `keys`, with `sums`, and nothing in the other columns."""
    fixed = {**_nothing(what, {*keys, *sums}), **keys}
    return rows.order_by().annotate(**fixed).values(*fixed).annotate(**sums).values_list(*_COLUMNS)


def _nothing(what: str, but: Iterable[str]) -> dict[str, Any]:
    """What the rows are about, and the columns that say nothing."""
    said = frozenset(but)
    empty = {name: value for name, value in _EMPTY.items() if name not in said}
    return {**empty, "what_": Value(what, output_field=CharField())}


def _used(part: QuerySet[Any]) -> QuerySet[Any]:
    keys = {"at_": F("on_day"), "price_": F("unit_price")}
    return _shaped(part, "use", keys, {"count_": Sum("gpu_seconds")})


def _used_by(part: QuerySet[Any]) -> QuerySet[Any]:
    """Apart from `_used`: to know whose job it was takes far longer than to add it up."""
    return _shaped(part, "user", {"owner_": F("whose")}, {"count_": Sum("gpu_seconds")})


def _open(projects: QuerySet[Project]) -> QuerySet[Any]:
    states = LIVE_JOB_STATES | WAITING_JOB_STATES
    jobs = Job.objects.filter(project__in=projects.values("pk"), state__in=states)
    return _jobs(jobs, "wait_reason")


def _failed(projects: QuerySet[Project], now: datetime) -> QuerySet[Any]:
    lately = {"state": JobState.FAILED, "ended_at__gte": now - FAILED_SINCE}
    return _jobs(Job.objects.filter(project__in=projects.values("pk"), **lately), "end_reason")


def _jobs(jobs: QuerySet[Job], word: str) -> QuerySet[Any]:
    keys = {"state_": F("state"), "word_": F(word), "owner_": F("owner_id")}
    gpus = Sum(F("nodes") * F("gpus_per_node"))
    sums = {"count_": Count("pk"), "more": gpus, "at_": Min(Coalesce("yielded_from", "queued_at"))}
    return _shaped(jobs, "job", keys, sums)


def _idle(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.annotate(**_nothing("idle", _OF_IDLE.values())).values_list(*_COLUMNS)


def _add_jobs(found: Jobs, username: str, shown: str, group: tuple[str, str, int, int]) -> None:
    state, reason, count, gpus = group
    if state == JobState.FAILED:
        found.ends[reason] += count
        return
    person = found.people.setdefault(username, Person(shown or username))
    found.states[state] += count
    found.gpus[state] += gpus
    if state in LIVE_JOB_STATES:
        person.running += count
        person.gpus += gpus
    elif state == JobState.HELD:
        person.held += count
    else:
        person.waiting += count
