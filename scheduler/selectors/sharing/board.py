"""A team at one look: what it holds, where its budgets lead, who uses GPUs, what idles or fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from django.db.models import Avg, Count, F, Max, Min, Q, Sum
from django.db.models.functions import TruncDate

from accounts.models import Team, User
from accounts.permissions import can
from scheduler.models import Budget, DeviceSample, Job, Quota, UsageEntry
from scheduler.money import steps_per_s
from scheduler.selectors.sharing.reach import of_team
from scheduler.selectors.sharing.reckoning import (
    LOOK_BACK,
    Foresight,
    Standing,
    foresee,
    standings,
)
from scheduler.states import (
    END_RULES,
    FAILURE_WORDS,
    LIVE_JOB_STATES,
    WAITING_JOB_STATES,
    AttemptState,
    EndReason,
    JobState,
)

# GPUs that did less than this, on average over so long, are named.
IDLE_OVER = timedelta(minutes=30)
IDLE_PERCENT, LOW_PERCENT = 5.0, 20.0
# Fewer readings of a job tell nothing.
_LEAST_READINGS = 10
FAILED_SINCE = timedelta(days=7)
_MOST_SHOWN = 10
_FARTHEST = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A quota of the team itself with its active grants, in GPUs."""

    quota: Quota
    guaranteed: int
    maximum: int | None

    @property
    def own(self) -> int:
        """Held of its guarantee."""
        return min(self.quota.held, self.guaranteed)

    @property
    def borrowed(self) -> int:
        """Held beyond it."""
        return self.quota.held - self.own

    @property
    def free(self) -> int:
        """What is left of the guarantee."""
        return self.guaranteed - self.own

    @property
    def whole(self) -> int:
        """What the bar stands for."""
        return max(1, self.guaranteed + self.borrowed, self.maximum or 0)


@dataclass(frozen=True, slots=True)
class BurnDown:
    """What was left of a budget at the end of each day, in its own measure, and where it leads."""

    budget: Budget
    standing: Standing
    foresight: Foresight
    left: Sequence[tuple[date, int]]


@dataclass(slots=True)
class Person:
    """What somebody runs, waits for and used in the last four weeks."""

    name: str
    running: int = 0
    gpus: int = 0
    waiting: int = 0
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


@dataclass(frozen=True, slots=True)
class TeamBoard:
    """Constant statements. `idle` is None for those who may not see what GPUs do."""

    held: Sequence[HeldRow]
    budgets: Sequence[BurnDown]
    people: Sequence[Person]
    states: Mapping[str, int]
    gpus: Mapping[str, int]
    failures: Sequence[tuple[str, str, int]]
    ended: int
    idle: Sequence[Idle] | None


def team_board(viewer: User, team: Team, *, now: datetime) -> TeamBoard:
    """Of a team that the viewer sees; costs only for those who may see the team's."""
    budgets = _budgets(team, now, with_money=can(viewer, "view_costs", team))
    used = _read_use(team, budgets, now)
    seen = standings(budgets, now=now) if budgets else {}
    jobs = _read_jobs(team, now)
    may_look = can(viewer, "manage_team", team) or can(viewer, "operate", None)
    return TeamBoard(
        held=_held(team, now),
        budgets=[_burn_down(one, seen[one.pk], used, now) for one in budgets],
        people=_people(jobs, used),
        states=jobs.states,
        gpus=jobs.gpus,
        failures=_failures(jobs.ends),
        ended=sum(jobs.ends.values()),
        idle=_idle(team, now) if may_look else None,
    )


def _held(team: Team, now: datetime) -> list[HeldRow]:
    active = Q(
        grants__valid_from__lte=now, grants__valid_until__gt=now, grants__revoked_at__isnull=True
    )
    rows = Quota.objects.filter(account__team=team).select_related("pool")
    rows = rows.annotate(
        more=Sum("grants__guaranteed", filter=active, default=0),
        most=F("maximum") + Sum("grants__maximum", filter=active, default=0),
    )
    return [HeldRow(one, one.guaranteed + one.more, one.most) for one in rows]


def _budgets(team: Team, now: datetime, *, with_money: bool) -> list[Budget]:
    rows = Budget.objects.filter(account__team=team, valid_from__lte=now, valid_until__gt=now)
    return list((rows if with_money else rows.filter(money=None)).order_by("pk"))


@dataclass(slots=True)
class _Use:
    """GPU-seconds by day, and steps of money; of the last weeks also by person."""

    seconds: Counter[date] = field(default_factory=Counter)
    money: Counter[date] = field(default_factory=Counter)
    of_person: Counter[str] = field(default_factory=Counter)
    names: dict[str, str] = field(default_factory=dict)


def _read_use(team: Team, budgets: Sequence[Budget], now: datetime) -> _Use:
    """One query over all that a burn-down or a forecast looks back on."""
    begins = [max(one.valid_from, now - _FARTHEST) for one in budgets]
    since = min([now - LOOK_BACK, *begins])
    entries = UsageEntry.objects.filter(
        of_team(team.pk, "project"), period_start__gte=since, period_start__lt=now
    )
    rows = (
        entries.order_by()
        .annotate(day=TruncDate("period_start"))
        .values_list("day", "unit_price", *_named("job__owner__"))
        .annotate(s=Sum("gpu_seconds"))
    )
    use, lately = _Use(), (now - LOOK_BACK).date()
    for day, price, shown, username, seconds in rows:
        use.seconds[day] += seconds
        use.money[day] += seconds * steps_per_s(price)
        if day >= lately:
            use.of_person[username] += seconds
            use.names[username] = shown or username
    return use


def _burn_down(budget: Budget, standing: Standing, use: _Use, now: datetime) -> BurnDown:
    by_day = use.money if budget.is_money else use.seconds
    lately = {day: amount for day, amount in by_day.items() if day >= (now - LOOK_BACK).date()}
    ahead = foresee(budget, standing, now=now, by_day=lately)
    day, left = now.date(), budget.limit - standing.used
    first = max(budget.valid_from, now - _FARTHEST).date()
    found = [(day, left)]
    while day > first:
        left += by_day.get(day, 0)
        day -= timedelta(days=1)
        found.append((day, left))
    return BurnDown(budget, standing, ahead, found[::-1])


@dataclass(slots=True)
class _Jobs:
    states: Counter[str] = field(default_factory=Counter)
    gpus: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    people: dict[str, Person] = field(default_factory=dict)


def _read_jobs(team: Team, now: datetime) -> _Jobs:
    """Open jobs by person, and the ends of those that failed lately; one query."""
    failed = Q(state=JobState.FAILED, ended_at__gte=now - FAILED_SINCE)
    rows = (
        Job.objects.filter(of_team(team.pk, "project"))
        .filter(Q(state__in=LIVE_JOB_STATES | WAITING_JOB_STATES) | failed)
        .order_by()
        .values_list("state", "end_reason", *_named("owner__"))
        .annotate(n=Count("pk"), total=Sum(F("nodes") * F("gpus_per_node")))
    )
    found = _Jobs()
    for state, reason, shown, username, count, gpus in rows:
        if state == JobState.FAILED:
            found.ends[reason] += count
            continue
        person = found.people.setdefault(username, Person(shown or username))
        found.states[state] += count
        found.gpus[state] += gpus
        if state in LIVE_JOB_STATES:
            person.running += count
            person.gpus += gpus
        else:
            person.waiting += count
    return found


def _people(jobs: _Jobs, use: _Use) -> list[Person]:
    people = dict(jobs.people)
    for username, seconds in use.of_person.items():
        person = people.setdefault(username, Person(use.names[username]))
        person.used_gpu_s = seconds
    order = sorted(people.values(), key=lambda one: (-one.used_gpu_s, -one.gpus, one.name))
    return order[:_MOST_SHOWN]


def _failures(ends: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """What it was, whose it is to mend, and how often; the most frequent first."""
    found: Counter[tuple[str, str]] = Counter()
    for reason, count in ends.items():
        known = reason in set(EndReason)
        found[FAILURE_WORDS[END_RULES[EndReason(reason)].failure] if known else (reason, "")] += (
            count
        )
    return [(what, whose, count) for (what, whose), count in found.most_common()]


def _idle(team: Team, now: datetime) -> list[Idle]:
    job = "attempt__job"
    rows = (
        DeviceSample.objects.filter(
            of_team(team.pk, f"{job}__project"),
            attempt__state=AttemptState.RUNNING,
            at__gte=now - IDLE_OVER,
            at__lte=now,
        )
        .order_by()
        .values_list(
            f"{job}_id", f"{job}__name", f"{job}__owner__email", *_named(f"{job}__owner__")
        )
        .annotate(
            gpus=Count("device", distinct=True),
            mean=Avg("gpu_percent"),
            most=Max("gpu_percent"),
            n=Count("pk"),
            since=Min("at"),
        )
        .filter(mean__lt=LOW_PERCENT, n__gte=_LEAST_READINGS)
        .order_by("mean", f"{job}_id")
    )
    return [
        Idle(pk, name, shown or username, email, *figures)
        for pk, name, email, shown, username, *figures in rows[:_MOST_SHOWN]
    ]


def _named(owner: str) -> tuple[str, str]:
    return f"{owner}display_name", f"{owner}username"
