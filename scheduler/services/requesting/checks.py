"""What may be asked for at all: every refusal names its field and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from accounts.models import Project, Team
from scheduler.models import Device, Pool, Quota
from scheduler.services.errors import Invalid
from scheduler.services.requesting.amounts import FIELD_OF, budget_at, limits_now, quota_for
from scheduler.services.sharing.budgets import MOST_GPU_HOURS
from scheduler.services.sharing.limits import MOST_GPUS
from scheduler.states import RequestKind

SHORTEST_WORDS, LONGEST_WORDS = 10, 4096
# A form takes its time; what begins "now" may lie so far back when it arrives.
_PAST = timedelta(minutes=15)
_AHEAD = timedelta(days=730)


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants: GPUs, or GPU-hours for a budget, from one moment until another."""

    owner: Team | Project
    kind: RequestKind
    pool: Pool | None
    gpu_model: str
    amount: int
    valid_from: datetime
    valid_until: datetime
    justification: str


def check_ask(ask: Ask, *, most_days: int, now: datetime) -> None:
    """Raises Invalid for the first thing that cannot be granted."""
    _check_amount(ask)
    _check_period(ask, most_days, now)
    words = ask.justification.strip()
    if not SHORTEST_WORDS <= len(words) <= LONGEST_WORDS:
        raise Invalid(
            f"Say in {SHORTEST_WORDS} to {LONGEST_WORDS} characters what it is for and why now.",
            field="justification",
        )
    _check_flavour(ask)
    _check_effect(ask, now)


def _check_amount(ask: Ask) -> None:
    unit, most = "GPUs", MOST_GPUS
    if ask.kind is RequestKind.BUDGET:
        unit, most = "GPU-hours", MOST_GPU_HOURS
    if not 1 <= ask.amount <= most:
        raise Invalid(f"Give a whole number of {unit} from 1 to {most}.", field="amount")


def _check_period(ask: Ask, most_days: int, now: datetime) -> None:
    for field in ("valid_from", "valid_until"):
        if timezone.is_naive(getattr(ask, field)):
            raise Invalid("Give a time with its zone, such as 2026-12-01T00:00:00Z.", field=field)
    if ask.valid_from >= ask.valid_until:
        raise Invalid("It must end after it begins.", field="valid_until")
    if ask.valid_from < now - _PAST:
        raise Invalid("This moment has passed. Let it begin now or later.", field="valid_from")
    if ask.valid_from > now + _AHEAD:
        raise Invalid(
            f"Ask for what begins within {_AHEAD.days} days; nobody can plan further.",
            field="valid_from",
        )
    if ask.valid_until - ask.valid_from > timedelta(days=most_days):
        raise Invalid(
            f"At most {most_days} days can be asked for at once; it can be renewed before its end.",
            field="valid_until",
        )


def _check_flavour(ask: Ask) -> None:
    if not ask.gpu_model:
        return
    if ask.kind is RequestKind.BUDGET:
        raise Invalid("A budget holds for all GPU models; leave this empty.", field="gpu_model")
    known = Device.objects.filter(model=ask.gpu_model)
    if ask.pool is not None:
        known = known.filter(node__pool=ask.pool)
    if not known.exists() and not Quota.objects.filter(gpu_model=ask.gpu_model).exists():
        raise Invalid("There is no such GPU model here. Choose one of the list.", field="gpu_model")


def _check_effect(ask: Ask, now: datetime) -> None:
    """What no limit keeps back need not be asked for."""
    if ask.kind is RequestKind.BUDGET:
        if ask.pool is not None:
            raise Invalid("A budget holds for all pools; leave this empty.", field="pool")
        if budget_at(ask.owner, ask.valid_from) is None:
            raise Invalid(
                "No budget limits this at that time, so there is nothing to add to.", field="kind"
            )
        return
    if ask.kind is RequestKind.ACCESS and not ask.gpu_model:
        raise Invalid("Say which GPU model you want access to.", field="gpu_model")
    if ask.kind is RequestKind.GUARANTEED:
        return
    limits = limits_now(quota_for(ask.owner, ask.pool, ask.gpu_model), now=now)
    most = getattr(limits, FIELD_OF[ask.kind]) if limits else None
    if most is None:
        word = "borrow limit" if ask.kind is RequestKind.BORROW else "maximum"
        raise Invalid(
            f"No {word} of just this account, pool and GPU model keeps you back, so a higher one "
            "would change nothing. The team's quota page says which limits there are.",
            field="kind",
        )
    if ask.kind is RequestKind.ACCESS and most > 0:
        raise Invalid(
            f"There is access already, to {most} GPUs. Ask for a higher maximum.", field="kind"
        )
