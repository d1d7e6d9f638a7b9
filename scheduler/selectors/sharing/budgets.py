"""Budgets for a viewer: what is used, kept and foreseen, and the alerts that went off."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db.models import OuterRef, Q, QuerySet

from accounts.models import Team, User
from accounts.models.rows import as_rows, moment_in, rows_in
from scheduler.ledger.shares import rounded
from scheduler.models import Budget, BudgetAlert, Threshold
from scheduler.money import STEPS, from_steps
from scheduler.selectors.sharing.limits import budgets_of
from scheduler.selectors.sharing.reckoning import (
    Foresight,
    Standing,
    daily_uses,
    days_before,
    foresee,
    said_of,
    standing_of,
    true_up_of,
    with_holds,
    with_true_ups,
)
from scheduler.states import hour_places, hours_words, is_endless

_S_PER_HOUR = 3600
_MUCH = 100
# From ten times a limit on, how many times it is says more than a share of it.
_MANY = 1000
# Of more budgets in force than this the last ones are shown without a forecast: it adds up entries.
MOST_FORESEEN = 20


@dataclass(frozen=True, slots=True)
class Printed:
    """A budget's figures in units of the last digit that is printed of them: what is beyond the
    limit is the difference of what stands beside it.

    `places`: decimals; two where it is money.
    """

    budget: Budget
    places: int

    @property
    def unit(self) -> str:
        """GPU-hours, or its currency."""
        return self.budget.currency if self.budget.is_money else "GPU-hours"

    def units(self, figure: int) -> int:
        """A figure in the budget's measure, halves away from zero."""
        size = STEPS if self.budget.is_money else _S_PER_HOUR
        return rounded(Fraction(figure * 10**self.places, size))

    def kept(self, standing: Standing) -> int:
        """What is committed, in units: what it comes to with what is used, less that. While a job
        runs the one becomes the other; rounded each for itself their sum would rise and fall."""
        return self.units(standing.used + standing.kept) - self.units(standing.used)

    def beyond(self, figure: int) -> int:
        """How far a figure is beyond the limit, in units; 0 for not."""
        return max(0, self.units(figure) - self.units(self.budget.limit))

    def text(self, units: int) -> str:
        """Units as people read them."""
        return f"{Decimal(units).scaleb(-self.places):,.{self.places}f}"

    def over_words(self, standing: Standing) -> str:
        """`0.67 EUR over, 3.90 with what is committed`, or the one that is; empty where neither is.

        Over is what is used, as `% used` and alerts go by it; the worst case is said as such.
        """
        over, worst = self.beyond(standing.used), self.beyond(standing.used + standing.kept)
        if not worst:
            return ""
        if worst == over:
            return f"{self.text(over)} {self.unit} over"
        if not over:
            return f"{self.text(worst)} {self.unit} over with what is committed"
        return f"{self.text(over)} {self.unit} over, {self.text(worst)} with what is committed"

    def share_words(self, used: int) -> str:
        """`45 % used`, `under 1 % used`; beyond the limit by what is printed: `240 % used`, and
        from ten times on `about 60 times its limit`."""
        limit = self.budget.limit
        if not limit or used < limit:
            return f"{share_words(percent_of(used, limit), is_some=bool(used))} used"
        shown = self.units(limit)
        percent = max(100, self.units(used) * 100 // shown) if shown else percent_of(used, limit)
        return f"{share_words(percent)} {'used' if percent < _MANY else 'its limit'}"


def share_words(percent: int, *, is_some: bool = True) -> str:
    """`45 %`, `under 1 %` of what is something, and from ten times on `about 60 times`."""
    if percent < _MANY:
        return f"{percent} %" if percent or not is_some else "under 1 %"
    return f"about {rounded(Fraction(percent, 100)):,} times"


def percent_of(used: int, limit: int) -> int:
    """Whole percents of a limit that are used, rounded down; may be more than 100."""
    return used * 100 // limit if limit else 100


def printed_of(budget: Budget, standing: Standing) -> Printed:
    """Money to the cent; hours with as many decimals as the smallest of these figures takes, two at
    most: beside a limit of whole hours three would read as thousands."""
    if budget.is_money:
        return Printed(budget, 2)
    figures = (budget.limit, standing.used, standing.kept)
    return Printed(budget, min(2, hour_places(figures)))


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget with what it comes to; `foresight` is None for a period that does not run.

    `said`: what its last comparison with the ledger found.
    """

    budget: Budget
    standing: Standing
    foresight: Foresight | None
    alerts: tuple[BudgetAlert, ...]
    said: tuple[str, ...] = ()

    def amount(self, figure: int) -> Decimal:
        """A figure of it as hours, or as an amount of its currency."""
        if self.budget.is_money:
            return from_steps(figure)
        return Decimal(figure) / _S_PER_HOUR

    @property
    def told_at(self) -> str:
        """What people were told of, rising: `50, 80, 100 % used`; empty for nothing."""
        told = [one for one in Threshold if one in {alert.threshold for alert in self.alerts}]
        shares = [one.value for one in told if one != Threshold.FORECAST]
        words = [f"{', '.join(shares)} % used"] if shares else []
        return " and ".join(words + [one.label for one in told if one == Threshold.FORECAST])

    @property
    def unit(self) -> str:
        """GPU-hours, or its currency."""
        return self.budget.currency if self.budget.is_money else "GPU-hours"

    @property
    def _figures(self) -> dict[str, int]:
        """Limit, used, kept, what is left, and where it leads, in its own measure."""
        return {
            "limit": self.budget.limit,
            "used": self.standing.used,
            "kept": self.standing.kept,
            "waiting": self.standing.waiting,
            "left": self.left,
            "carried": self.budget.carried,
            "granted": self.budget.granted,
            "low": self.foresight.low if self.foresight else 0,
            "high": self.foresight.high if self.foresight else 0,
        }

    @property
    def figures(self) -> dict[str, Decimal]:
        """The same as hours or amounts."""
        return {name: self.amount(figure) for name, figure in self._figures.items()}

    @property
    def texts(self) -> dict[str, str]:
        """The same as people read them, and `over` and `share` in words: amounts with cents, hours
        with as many decimals as `printed_of` says, and from a hundred on what is only expected
        without any."""
        figures, printed = self._figures, printed_of(self.budget, self.standing)
        if self.budget.is_money:
            found = {name: printed.text(printed.units(each)) for name, each in figures.items()}
        else:
            found = {name: hours_words(each, printed.places) for name, each in figures.items()}
        # What is expected at most is that and what is committed, as they stand beside it.
        kept = printed.kept(self.standing)
        for name, units in (
            ("kept", kept),
            ("waiting", min(kept, printed.units(figures["waiting"]))),
        ):
            if units:
                found[name] = printed.text(units)
        found["high"] = printed.text(printed.units(figures["low"]) + kept)
        for name in ("low", "high"):
            if (expected := self.amount(figures[name])) >= _MUCH:
                found[name] = f"{expected:,.0f}"
        return found | {
            "over": printed.over_words(self.standing),
            "share": printed.share_words(self.standing.used),
        }

    @property
    def used_percent(self) -> int:
        """Of the limit, rounded down; may be more than 100."""
        return percent_of(self.standing.used, self.budget.limit)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left of it already."""
        return self.standing.used >= self.budget.limit

    @property
    def left(self) -> int:
        """What may still be committed, in its own measure."""
        return max(0, self.budget.limit - self.budget.committed - self.budget.spent)

    @property
    def is_endless(self) -> bool:
        """Whether its end stands for none; `low` and `high` are of the end of the month then."""
        return is_endless(self.budget.valid_until, self.budget.valid_from)

    @property
    def out_on(self) -> date | None:
        """The day on which it is used up if things go on as before."""
        return self.foresight.out_on if self.foresight else None


def budget_views(
    viewer: User, *, now: datetime, only: Collection[int] | None = None, team: Team | None = None
) -> Sequence[BudgetView]:
    """Of all `budgets_for` the viewer, or `only` of these. Two queries."""
    asked = budgets_for(viewer, team=team)
    return views_of(asked if only is None else asked.filter(pk__in=only), now=now)


def budgets_for(viewer: User, *, team: Team | None = None) -> QuerySet[Any]:
    """All the viewer may see, past ones and those to come included, as `views_of` takes them;
    `team`: its own and those of its projects.
    """
    asked = Budget.objects.filter(budgets_of(viewer))
    if team is not None:
        asked = asked.filter(Q(account__team=team) | Q(account__project__team=team))
    told = BudgetAlert.objects.filter(budget=OuterRef("pk"), version=OuterRef("version")).order_by()
    alerts = as_rows(told, "id", "threshold", "at")
    asked = asked.select_related("account__team", "account__project__team")
    return with_holds(with_true_ups(asked.annotate(told=alerts)))


def views_of(budgets: Iterable[Any], *, now: datetime) -> Sequence[BudgetView]:
    """What rows of `budgets_for` come to, in their order; the first that run are foreseen."""
    rows = list(budgets)
    running = [one for one in rows if one.valid_from <= now < one.valid_until][:MOST_FORESEEN]
    since, until = days_before(now)
    lately = daily_uses(running, since=since, until=until)
    return [_view(budget, lately.get(budget.pk), now) for budget in rows]


def _view(budget: Any, by_day: Mapping[date, int] | None, now: datetime) -> BudgetView:
    standing = standing_of(budget, now=now)
    foresight = None if by_day is None else foresee(budget, standing, now=now, by_day=by_day)
    said = tuple(said_of(budget, true_up_of(budget)))
    return BudgetView(budget, standing, foresight, _alerts(budget), said)


def _alerts(budget: Any) -> tuple[BudgetAlert, ...]:
    """Those of the version in force, the latest first."""
    return tuple(
        BudgetAlert(budget=budget, version=budget.version, threshold=threshold, at=moment_in(at))
        for _, threshold, at in sorted(rows_in(budget.told), reverse=True)
    )
