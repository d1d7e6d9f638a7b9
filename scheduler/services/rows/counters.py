"""How much of money a budget's counters hold: what does not fit is said, and stops no job's end."""

from __future__ import annotations

from django.db.models import Case, F, Value, When

from scheduler.models import Budget
from scheduler.money import MOST_COUNTED, MOST_MONEY, STEPS

# Steps of one limit, with what is carried over and granted on top.
MOST_LIMIT = int(MOST_MONEY) * STEPS


def room_for_more(budget: Budget) -> int:
    """Steps that may still be added to its limit."""
    return max(0, MOST_LIMIT - budget.limit)


def raised(column: str, steps: int) -> Case:
    """A counter with so many steps more, or full."""
    is_full = When(**{f"{column}__gt": MOST_COUNTED - steps}, then=Value(MOST_COUNTED))
    return Case(is_full, default=F(column) + steps)
