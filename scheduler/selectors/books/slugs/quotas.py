"""Quotas against what teams held, borrowed, left to others and waited for; one sweep of a month."""

from __future__ import annotations

from decimal import Decimal

from scheduler.ledger.rating import DAY_S
from scheduler.selectors.books.adding import Adds
from scheduler.selectors.books.frame import (
    Ask,
    Bars,
    Bound,
    Cell,
    Cells,
    Check,
    Column,
    Drill,
    Form,
    Report,
    Sheet,
    Who,
    sheet_of,
    totals_of,
)
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.seconds import day_of
from scheduler.selectors.books.slugs.guaranteed.reading import RUN_BORROWED, read_month
from scheduler.selectors.books.slugs.guaranteed.standing import ANY, Day
from scheduler.selectors.books.spans import SPAN, closed_of, span_of, standing_of
from scheduler.selectors.books.sums.ratios import share

ANY_MODEL = "any model"
_DAY = {"day": "day", "team": "team", "flavour": "flavour"}
_HELD_BY = Drill("segments", _DAY, {"bucket": "allocated"}, of_all=ANY_MODEL)
_BORROWED = Drill("usage-lines", _DAY, {"kind": RUN_BORROWED}, of_all=ANY_MODEL)
_SHARE = ("within_gpu_seconds", "guaranteed_gpu_seconds")
_QUOTAS = (
    Column("day", "Day", Form.DAY),
    Column("team", "Team"),
    Column("flavour", "GPU"),
    Column("guaranteed", "GPUs guaranteed", Form.COUNT, is_detail=True),
    Column("guaranteed_gpu_seconds", "Guaranteed h", Form.SECONDS, is_summed=True),
    Column("used_gpu_seconds", "Used h", Form.SECONDS, is_summed=True, drill=_HELD_BY),
    Column("within_gpu_seconds", "Within h", Form.SECONDS, is_summed=True),
    Column("used_percent", "Guarantee used", Form.PERCENT, share_of=_SHARE),
    Column("beyond_gpu_seconds", "Beyond h", Form.SECONDS, is_summed=True),
    Column("unused_gpu_seconds", "Left to others h", Form.SECONDS, is_summed=True),
    Column(
        "borrowed_gpu_seconds", "Charged as borrowed h", Form.SECONDS, is_summed=True,
        is_detail=True, drill=_BORROWED,
    ),
    Column("model_gpu_seconds", "Of this model h", Form.SECONDS, is_summed=True, drill=_HELD_BY),
    Column("mean_gpus", "Mean use", Form.PRICE, is_detail=True, drill=_HELD_BY),
    Column("peak_gpus", "Peak use", Form.COUNT, is_detail=True, drill=_HELD_BY),
    Column("waited_gpu_seconds", "Waited for h", Form.SECONDS, is_summed=True),
    Column("wait_caused_gpu_seconds", "Wait caused h", Form.SECONDS, is_summed=True),
)  # fmt: skip
_ADDS = (
    Adds("used_gpu_seconds", ("beyond_gpu_seconds",), ("within_gpu_seconds",)),
    Adds("guaranteed_gpu_seconds", ("unused_gpu_seconds",), ("within_gpu_seconds",)),
)
_REMARKS = (
    "Within: as much of what was used as the guarantee had room for at each moment; beyond: the "
    "rest. A guarantee of any model stands on one line with the use of all models; the lines of "
    "the models below it are parts of that use, and are added up under Of this model alone.",
    "Waited for: GPUs asked for × the time from queueing to the first start. Wait caused: as much "
    "of it as the team was guaranteed and did not hold: it was lent, drained, down or scattered.",
    "What was borrowed is known once the month is closed.",
)


def _quota_use(ask: Ask, scope: Scope) -> Sheet:
    """By team, GPU model and day: what was guaranteed then, used of it and beyond it, waited for.

    What is guaranteed of any model is on one line with the use of all, models stand below as parts.
    """
    books = scope.books(ask.period)
    span = span_of(books, ask)
    closed = closed_of(books, span)
    teams = _teams(ask, scope)
    known, standing = read_month(scope, teams, span)
    rows: list[Cells] = []
    for key in sorted(standing, key=lambda each: (each[0], teams[each[1]], each[2])):
        day_s, team, flavour = key
        span_s = min(span.end_s, day_s + DAY_S) - max(day_s, span.start_s)
        borrowed = known.borrowed[key] if f"{day_of(day_s):%Y-%m}" in closed else None
        figures = _figures(standing[key], span_s, borrowed)
        if flavour == ANY and not known.guarantees_any(team):
            # Of who takes any model, but is guaranteed none but named ones: waits alone.
            names = _WAITS
        elif flavour == ANY:
            names = _LINE | _WAITS
        else:
            names = _PART if known.guarantees_any(team) else _LINE | _PART | _WAITS
        head = (day_of(day_s), teams[team], flavour or ANY_MODEL)
        rows.append((*head, *(figures[name] if name in names else None for name in _FIGURES)))
    sums = totals_of(_QUOTAS, rows)
    used, promised = sums["used_gpu_seconds"], sums["guaranteed_gpu_seconds"]
    told = sums["within_gpu_seconds"] + sums["unused_gpu_seconds"]
    checks = [
        Check("use equals segments", used, known.held, "GPU-s"),
        Check("use of all models is the use", sums["model_gpu_seconds"], used, "GPU-s"),
        Check("guarantee is used or left", promised, told, "GPU-s"),
        Bound("use is at most capacity", used, known.in_service, "GPU-s"),
    ]
    remarks = _REMARKS if set(span.months) - closed else _REMARKS[:-1]
    return sheet_of(_QUOTAS, rows, ask, checks, sums, remarks=remarks, **standing_of(books, span))


# What is said on which lines; the others are empty.
_FIGURES = tuple(column.name for column in _QUOTAS[3:])
_WAITS = frozenset({"waited_gpu_seconds", "wait_caused_gpu_seconds"})
_PART = frozenset({"guaranteed", "model_gpu_seconds", "mean_gpus", "peak_gpus"})
_LINE = frozenset(_FIGURES) - _WAITS - {"model_gpu_seconds"}


def _figures(day: Day, span_s: int, borrowed: int | None) -> dict[str, Cell]:
    """All that can be said of a team's day, by column."""
    return {
        "guaranteed": day.guaranteed or None,
        "guaranteed_gpu_seconds": day.promised,
        "used_gpu_seconds": day.used,
        "within_gpu_seconds": day.within,
        "used_percent": share(day.within, day.promised),
        "beyond_gpu_seconds": day.used - day.within,
        "unused_gpu_seconds": day.unused,
        "borrowed_gpu_seconds": borrowed,
        "model_gpu_seconds": day.used,
        "mean_gpus": (Decimal(day.used) / span_s).quantize(Decimal("0.01")),
        "peak_gpus": day.peak,
        "waited_gpu_seconds": day.waited,
        "wait_caused_gpu_seconds": day.caused,
    }


def _teams(ask: Ask, scope: Scope) -> dict[int, str]:
    """The teams the viewer may see here, narrowed. Raises NotFound."""
    teams = {pk: slug for slug, pk in scope.team_ids.items()}
    if not (scope.is_all or scope.is_operator):
        teams = {pk: slug for pk, slug in teams.items() if pk in scope.teams}
    if ask.team:
        scope.check_known(ask.team)
        teams = {pk: slug for pk, slug in teams.items() if slug == ask.team}
    return teams


REPORTS = (
    Report(
        "quota-use", "Use of quotas", "What teams held against what they are guaranteed.",
        "team × flavour × day", _QUOTAS, Who.BOOKS | Who.TEAMS | Who.OPERATORS, _quota_use,
        SPAN | {"team"}, ("team", "used_gpu_seconds"),
        (Bars(("within_gpu_seconds", "beyond_gpu_seconds"), ("guaranteed_gpu_seconds",)),),
        folds=("team", "flavour"), adds=_ADDS,
    ),
)  # fmt: skip
