"""What GPUs cost, and what is left of highest prices, where a budget is in money."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.conf import load_conf
from scheduler.engine.snapshot import NONE, Ints, floats, ints
from scheduler.loop.loading.accounts import Owners
from scheduler.models import Job
from scheduler.money import STEPS
from scheduler.services.sharing.prices import dearest_by_card, spent_of
from scheduler.states import LIVE_JOB_STATES, JobState


def load_prices(owners: Owners, models: Iterable[str], *, now: datetime) -> dict[str, Any]:
    """Prices and `money` of the snapshot; one query, and one where a team has a card of its own;
    none while no budget is in money."""
    if not np.isfinite(owners.accounts.budget_money).any():
        return {}
    names, money = list(models), (load_conf().currency, float(STEPS))
    found = {
        team: [np.inf if (price := steps[name]) is None else float(price) for name in names]
        for team, steps in dearest_by_card(names, now=now).items()
    }
    prices = floats(found.pop(None))
    if not found:
        return {"prices": prices, "money": money}
    whose = {f"team:{team}": row for row, team in enumerate(found)}
    return {
        "prices": prices,
        "money": money,
        "own_prices": np.asarray(list(found.values())),
        "price_list": _next_above(owners, whose),
    }


def load_most_costs(owners: Owners, also: Iterable[Job] = ()) -> dict[int, float]:
    """By job that waits or runs, and has a highest price, what is left of that, in steps; those of
    `also` are no rows. Two queries; none while no budget is in money."""
    if not np.isfinite(owners.accounts.budget_money).any():
        return {}
    rows = CAPPED.read()
    tried = [pk for pk, _, state, end in rows if end or state != JobState.QUEUED]
    spent = spent_of(tried)
    most = [(pk, steps - spent.get(pk, 0)) for pk, steps, _, _ in rows]
    most += [(job.pk, job.max_cost_steps) for job in also if job.max_cost_steps is not None]
    return {pk: float(max(0, steps)) for pk, steps in most}


def _next_above(owners: Owners, rows: dict[str, int]) -> Ints:
    """By account the value of its own key, or of the next one above that has one; else NONE."""
    keys, parent = list(owners.row_of), owners.accounts.parent.tolist()
    found: dict[int, int] = {NONE: NONE}

    def of(row: int) -> int:
        if row not in found:
            found[row] = rows[keys[row]] if keys[row] in rows else of(parent[row])
        return found[row]

    return ints([of(row) for row in range(len(keys))])


def _capped() -> QuerySet[Job, tuple[Any, ...]]:
    """By state, as the index of those few has it."""
    states = (JobState.QUEUED, *LIVE_JOB_STATES)
    found = Job.objects.filter(state__in=states, max_cost_steps__isnull=False).order_by()
    return found.values_list("pk", "max_cost_steps", "state", "end_reason")


CAPPED = AskedOnce(_capped)
