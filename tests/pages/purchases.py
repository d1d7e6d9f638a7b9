"""What a cluster cost, for the pages that show it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

from accounts.models import User
from scheduler.models import Pool
from scheduler.services import books

# A month that nothing has closed, and not farther ahead than a cost may be.
AHEAD = f"{date.today().year + 1}-01"


def costs_of(root: User, second: User, pool: Pool) -> dict[str, Any]:
    """Terms, purchases and a cost that somebody else proposed; one purchase is in service."""
    bought = partial(
        books.propose_asset, actor=second, pool=pool, paid=Decimal(10), since=date(2126, 1, 1)
    )
    asset = bought(name="old cards", months=12)
    books.approve_spending(actor=root, row=asset)
    cost = books.propose_cost(
        actor=second, pool=pool, month=AHEAD, kind="staff", amount=Decimal(5), note="rota"
    )
    terms = books.propose_terms(actor=second, pool=pool, idle="even")
    return {
        "asset": asset.pk,
        "bought": bought(name="cards", months=2).pk,
        "cost": cost.pk,
        "terms": terms.pk,
    }
