"""Budgets for a viewer: what is used, kept and foreseen, and the alerts that went off."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from accounts.models import User
from scheduler.models import Budget, BudgetAlert
from scheduler.money import from_steps
from scheduler.selectors.sharing.limits import mine
from scheduler.selectors.sharing.reckoning import Foresight, Standing, foresee, standings

_S_PER_HOUR = 3600
# Of more budgets in force than this the last ones are shown without a forecast: it costs a query.
MOST_FORESEEN = 20


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A budget with what it comes to; `foresight` is None for a period that does not run."""

    budget: Budget
    standing: Standing
    foresight: Foresight | None
    alerts: tuple[BudgetAlert, ...]

    def amount(self, figure: int) -> Decimal:
        """A figure of it as hours, or as an amount of its currency."""
        if self.budget.is_money:
            return from_steps(figure)
        return Decimal(figure) / _S_PER_HOUR

    @property
    def unit(self) -> str:
        """GPU-hours, or its currency."""
        return self.budget.currency if self.budget.is_money else "GPU-hours"

    @property
    def figures(self) -> dict[str, Decimal]:
        """Limit, used, kept, what is left and where it leads, as hours or amounts."""
        named = {
            "limit": self.budget.limit,
            "used": self.standing.used,
            "kept": self.standing.kept,
            "left": self.left,
            "carried": self.budget.carried,
            "granted": self.budget.granted,
            "low": self.foresight.low if self.foresight else 0,
            "high": self.foresight.high if self.foresight else 0,
        }
        return {name: self.amount(figure) for name, figure in named.items()}

    @property
    def used_percent(self) -> int:
        """Of the limit, rounded down; may be more than 100."""
        return self.standing.used * 100 // self.budget.limit if self.budget.limit else 100

    @property
    def left(self) -> int:
        """What may still be committed, in its own measure."""
        return max(0, self.budget.limit - self.budget.committed - self.budget.spent)

    @property
    def out_on(self) -> date | None:
        """The day on which it is used up if things go on as before."""
        return self.foresight.out_on if self.foresight else None


def budget_views(
    viewer: User, *, now: datetime, only: Collection[int] | None = None
) -> Sequence[BudgetView]:
    """All the viewer may see, past ones and those to come included.

    Three queries, and one for each forecast: at most MOST_FORESEEN.
    """
    budgets = Budget.objects.filter(mine(viewer))
    budgets = budgets.select_related("account__team", "account__project__team")
    if only is not None:
        budgets = budgets.filter(pk__in=only)
    rows = list(budgets.prefetch_related("alerts"))
    found = standings(rows, now=now)
    running = [one for one in rows if one.valid_from <= now < one.valid_until][:MOST_FORESEEN]
    ahead = {one.pk: foresee(one, found[one.pk], now=now) for one in running}
    return [
        BudgetView(
            budget,
            found[budget.pk],
            ahead.get(budget.pk),
            tuple(one for one in budget.alerts.all() if one.version == budget.version),
        )
        for budget in rows
    ]
