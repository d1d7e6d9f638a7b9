"""The board of a team: quotas in use, budgets burning down, people, what idles, what fails."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.permissions import can
from accounts.selectors import get_visible_team
from portal.pages.access import page, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.money import from_steps
from scheduler.selectors.idling.teams import reclaimed_in
from scheduler.selectors.sharing.boards.board import BurnDown, team_board
from scheduler.selectors.sharing.budgets import printed_of
from scheduler.selectors.sharing.reckoning import foreseen_until
from scheduler.states import LIVE_JOB_STATES, JobState, is_endless

WIDTH, HEIGHT = 600, 120
# What lies farther back or ahead is not drawn.
_FARTHEST = timedelta(days=400)
_S_PER_HOUR = 3600
# A line that is shorter lies under that of now.
_SEEN = 2.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """A burn-down as lines in a box of WIDTH x HEIGHT, and its figures in hours or money.

    `ahead` is empty where nothing is left to draw. `over`: in words, what is used beyond the limit;
    empty for nothing.
    """

    of: BurnDown
    begin: datetime
    end: datetime
    past: str
    ahead: str
    now_x: str
    limit: Decimal
    left: Decimal
    over: str
    is_endless: bool
    at_end: Decimal
    unit: str
    places: str
    rows: tuple[tuple[date, Decimal], ...]


@page("GET")
def team_board_page(request: HttpRequest, slug: str) -> HttpResponseBase:
    """For everybody in the team; what idles, with its stop, for those who lead it."""
    viewer, now = viewer_of(request), timezone.now()
    team = get_visible_team(viewer, slug)
    board = team_board(viewer, team, now=now)
    context = {
        "team": team,
        "board": board,
        "reclaimed": reclaimed_in(viewer, team, now=now),
        "quotas": leaf_of(request, board.held, "quotas", size=30),
        "charts": leaf_of(request, board.budgets, "budgets", size=10).made(
            lambda one: draw(one, now)
        ),
        "running": sum(board.states.get(state, 0) for state in LIVE_JOB_STATES),
        "running_gpus": sum(board.gpus.get(state, 0) for state in LIVE_JOB_STATES),
        "waiting": board.states.get(JobState.QUEUED, 0),
        "waiting_gpus": board.gpus.get(JobState.QUEUED, 0),
        "held": board.states.get(JobState.HELD, 0),
        "may_manage": can(viewer, "manage_team", team),
        "may_stop": can(viewer, "manage_team", team) or can(viewer, "operate", None),
        "may_see_costs": can(viewer, "view_costs", team),
        "now": now,
    }
    part = "#board" if request.GET.get("part") == "board" else ""
    return render(request, f"teams/board.html{part}", context)


def draw(one: BurnDown, now: datetime) -> Drawn:
    """From the begin of its period to its end; ahead by the mean of the last weeks. One without
    end ends where it is foreseen, or used up."""

    def at(day: date) -> datetime:
        return datetime(day.year, day.month, day.day, tzinfo=now.tzinfo) + timedelta(days=1)

    budget, ahead, printed = one.budget, one.foresight, printed_of(one.budget, one.standing)
    begin = max(budget.valid_from, now - _FARTHEST)
    foreseen = foreseen_until(budget, now)
    out_at = at(ahead.out_on) if ahead.out_on else now
    end = min(budget.valid_until, max(foreseen, out_at), now + _FARTHEST)
    span_s = max(1.0, (end - begin).total_seconds())

    def x(moment: datetime) -> float:
        return WIDTH * min(1.0, max(0.0, (moment - begin).total_seconds() / span_s))

    def y(left: float) -> float:
        return HEIGHT * (1 - min(1.0, max(0.0, left / max(1, budget.limit))))

    left, at_end = one.left[-1][1], budget.limit - ahead.low
    past = [(x(begin), y(budget.limit))]
    past += [(x(min(at(day), now)), y(rest)) for day, rest in one.left]
    to = (x(foreseen), y(at_end))
    if ahead.out_on is not None:
        to = (x(out_at - timedelta(hours=12)), y(0))
    return Drawn(
        of=one,
        begin=begin,
        end=end,
        past=_line(past),
        ahead=_line([past[-1], to]) if left > 0 and to[0] - past[-1][0] >= _SEEN else "",
        now_x=f"{x(now):.1f}",
        limit=_amount(one, budget.limit),
        left=_amount(one, max(0, left)),
        over=printed.over_words(one.standing),
        is_endless=is_endless(budget.valid_until, budget.valid_from),
        at_end=_amount(one, max(0, at_end)),
        unit=budget.currency if budget.is_money else "GPU-hours",
        places=f"{printed.places}g",
        rows=tuple((day, _amount(one, rest)) for day, rest in one.left[-14:]),
    )


def _line(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _amount(one: BurnDown, figure: int) -> Decimal:
    return from_steps(figure) if one.budget.is_money else Decimal(figure) / _S_PER_HOUR
