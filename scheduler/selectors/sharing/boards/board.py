"""A team at one look: what it holds, where its budgets lead, who uses GPUs, what idles or fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.db.models import F, Q, Sum

from accounts.models import Team, User
from accounts.permissions import can
from scheduler.models import Budget, Quota
from scheduler.selectors.sharing.bars import bar_whole
from scheduler.selectors.sharing.boards.activity import (
    MOST_SHOWN,
    Idle,
    Jobs,
    Person,
    Use,
    Wait,
    read_activity,
)
from scheduler.selectors.sharing.reckoning import (
    Foresight,
    Standing,
    days_before,
    foresee,
    with_standings,
)
from scheduler.states import END_RULES, FAILURE_WORDS, EndReason

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
        """What its bar stands for."""
        return bar_whole(self.quota.held, self.guaranteed, self.maximum)


@dataclass(frozen=True, slots=True)
class BurnDown:
    """What was left of a budget at the end of each day, in its own measure, and where it leads."""

    budget: Budget
    standing: Standing
    foresight: Foresight
    left: Sequence[tuple[date, int]]


@dataclass(frozen=True, slots=True)
class TeamBoard:
    """Constant statements. `idle` is None for those who may not see what GPUs do; of its `idling`
    jobs it has those that do least. `waits` are the largest of `waiting` kinds of waits."""

    held: Sequence[HeldRow]
    budgets: Sequence[BurnDown]
    people: Sequence[Person]
    waits: Sequence[Wait]
    waiting: int
    states: Mapping[str, int]
    gpus: Mapping[str, int]
    failures: Sequence[tuple[str, str, int]]
    ended: int
    idle: Sequence[Idle] | None
    idling: int


def team_board(viewer: User, team: Team, *, now: datetime) -> TeamBoard:
    """Of a team that the viewer sees; costs only for those who may see the team's, people and jobs
    of the teams below only for who leads it: others of a team are nobody below."""
    rows = Budget.objects.filter(account__team=team, valid_from__lte=now, valid_until__gt=now)
    if not can(viewer, "view_costs", team):
        rows = rows.filter(money=None)
    budgets = with_standings(rows.order_by("pk"), now=now)
    may_look = can(viewer, "manage_team", team) or can(viewer, "operate", None)
    begins = [max(one.valid_from, now - _FARTHEST) for one, _ in budgets]
    since = min([days_before(now)[0], *begins]) if budgets else None
    found = read_activity(team.pk, since=since, now=now, leads=may_look)
    used, jobs = found.use, found.jobs
    return TeamBoard(
        held=_held(team, now),
        budgets=[_burn_down(one, seen, used, now) for one, seen in budgets],
        people=_people(jobs, used),
        waits=sorted(jobs.waits, key=_first_wait)[:MOST_SHOWN],
        waiting=len(jobs.waits),
        states=jobs.states,
        gpus=jobs.gpus,
        failures=_failures(jobs.ends),
        ended=sum(jobs.ends.values()),
        idle=found.idlest if may_look else None,
        idling=len(found.idle),
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


def _burn_down(budget: Budget, standing: Standing, use: Use, now: datetime) -> BurnDown:
    """What was left by day. What runs and is charged at the end of its hour was used today."""
    by_day = use.money if budget.is_money else use.seconds
    ahead = foresee(budget, standing, now=now, by_day=by_day)
    day, left = now.date(), budget.limit - standing.used
    first = max(budget.valid_from, now - _FARTHEST).date()
    found = [(day, left)]
    if budget.valid_from.date() == first:
        charged = sum(count for at, count in by_day.items() if first <= at <= day)
        left += max(0, standing.used - charged)
    while day > first:
        left += by_day.get(day, 0)
        day -= timedelta(days=1)
        found.append((day, left))
    return BurnDown(budget, standing, ahead, found[::-1])


def _first_wait(one: Wait) -> tuple[bool, int, datetime]:
    """Who asks for most stands first, and what only a hand lets go last."""
    return one.is_held, -one.gpus, one.since


def _people(jobs: Jobs, use: Use) -> list[Person]:
    people = dict(jobs.people)
    for username, seconds in use.of_person.items():
        person = people.setdefault(username, Person(use.names[username]))
        person.used_gpu_s = seconds
    order = sorted(people.values(), key=lambda one: (-one.used_gpu_s, -one.gpus, one.name))
    return order[:MOST_SHOWN]


def _failures(ends: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """What it was, whose it is to mend, and how often; the most frequent first."""
    found: Counter[tuple[str, str]] = Counter()
    for reason, count in ends.items():
        known = reason in set(EndReason)
        found[FAILURE_WORDS[END_RULES[EndReason(reason)].failure] if known else (reason, "")] += (
            count
        )
    return [(what, whose, count) for (what, whose), count in found.most_common()]
