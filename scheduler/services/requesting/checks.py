"""What may be asked for at all: every refusal names its field and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from accounts.models import Project, Team, User
from scheduler.conf import load_conf
from scheduler.models import Device, Pool, Quota, QuotaRequest
from scheduler.money import MOST_MONEY, STEPS
from scheduler.services.bookings.requested import fit_of
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.requesting.amounts import (
    BUDGET_KINDS,
    FIELD_OF,
    budget_at,
    limits_now,
    quota_for,
)
from scheduler.services.rows.counters import room_for_more
from scheduler.services.sharing.budgets import MOST_GPU_HOURS
from scheduler.services.sharing.limits import MOST_GPUS, MOST_HOURS
from scheduler.services.submitting.longest import longest_on_the_way
from scheduler.states import OPEN_REQUEST_STATES, Outcome, RequestKind, moment_words

SHORTEST_WORDS, LONGEST_WORDS = 10, 4096
# A form takes its time; what begins "now" may lie so far back when it arrives.
_PAST = timedelta(minutes=15)
# Whoever saw no reply sends it again within so long.
_JUST_NOW = timedelta(minutes=10)
MOST_OPEN = 20
_AHEAD = timedelta(days=730)
_LIMIT_WORDS = {RequestKind.BORROW: "borrow limit", RequestKind.WALLTIME: "longest time"}


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody wants: GPUs, hours of time limit, GPU-hours or money for a budget, from one
    moment until another.
    """

    owner: Team | Project
    kind: RequestKind
    pool: Pool | None
    gpu_model: str
    amount: int
    valid_from: datetime
    valid_until: datetime
    justification: str


def check_ask(actor: User, ask: Ask, *, most_days: int, now: datetime) -> None:
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
    if ask.kind is RequestKind.RESERVATION:
        _check_booking(actor, ask, now)
    else:
        _check_effect(ask, now)


def _check_amount(ask: Ask) -> None:
    unit, most = "GPUs", MOST_GPUS
    if ask.kind is RequestKind.BUDGET:
        unit, most = "GPU-hours", MOST_GPU_HOURS
    if ask.kind is RequestKind.MONEY:
        unit, most = f"{load_conf().currency}", int(MOST_MONEY)
    if ask.kind is RequestKind.WALLTIME:
        unit, most = "hours", MOST_HOURS
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
    if ask.kind in BUDGET_KINDS:
        raise Invalid("A budget holds for all GPU models; leave this empty.", field="gpu_model")
    if ask.kind is RequestKind.WALLTIME:
        words = "The longest time holds for all GPU models; leave this empty."
        raise Invalid(words, field="gpu_model")
    known = Device.objects.filter(model=ask.gpu_model)
    if ask.pool is not None:
        known = known.filter(node__pool=ask.pool)
    if not known.exists() and not Quota.objects.filter(gpu_model=ask.gpu_model).exists():
        raise Invalid("There is no such GPU model here. Choose one of the list.", field="gpu_model")


def _check_booking(actor: User, ask: Ask, now: datetime) -> None:
    """Raises Invalid for what could not be booked now."""
    if ask.pool is None:
        raise Invalid("Say in which pool; GPUs are booked of one.", field="pool")
    fit_of(
        actor=actor,
        owner=ask.owner,
        pool=ask.pool,
        gpu_model=ask.gpu_model,
        gpus=ask.amount,
        from_at=ask.valid_from,
        until_at=ask.valid_until,
        now=now,
    )


def _check_effect(ask: Ask, now: datetime) -> None:
    """What no limit keeps back need not be asked for."""
    if ask.kind in BUDGET_KINDS:
        _check_budget(ask)
        return
    if ask.kind is RequestKind.ACCESS and not ask.gpu_model:
        raise Invalid("Say which GPU model you want access to.", field="gpu_model")
    if ask.kind is RequestKind.GUARANTEED:
        return
    # What is granted until then has ended when this begins.
    start = max(now, ask.valid_from)
    limits = limits_now(quota_for(ask.owner, ask.pool, ask.gpu_model), now=start)
    most = getattr(limits, FIELD_OF[ask.kind]) if limits else None
    if most is None:
        word = _LIMIT_WORDS.get(ask.kind, "maximum")
        raise Invalid(
            f"No {word} of just this account, pool and GPU model keeps you back, so a higher one "
            "would change nothing. The team's quota page says which limits there are.",
            field="kind",
        )
    if ask.kind is RequestKind.ACCESS and most > 0:
        raise Invalid(
            f"There is access already, to {most} GPUs. Ask for a higher maximum.", field="kind"
        )
    if ask.kind is RequestKind.WALLTIME:
        _check_longest(ask, most, start)


def _check_budget(ask: Ask) -> None:
    """Raises Invalid where there is no such budget, or it ends before what is asked for."""
    if ask.pool is not None:
        raise Invalid("A budget holds for all pools; leave this empty.", field="pool")
    is_money = ask.kind is RequestKind.MONEY
    budget = budget_at(ask.owner, ask.valid_from, is_money=is_money)
    if budget is None:
        raise Invalid(
            "No budget limits this at that time, so there is nothing to add to.", field="kind"
        )
    if is_money and ask.valid_until > budget.valid_until:
        raise Invalid(
            f"This budget ends on {moment_words(budget.valid_until)}, and what is added to it "
            "with it. Ask until then at most.",
            field="valid_until",
        )
    if is_money and ask.amount > (room := room_for_more(budget) // STEPS):
        raise Invalid(
            f"This budget can become {MOST_MONEY:f} {budget.currency} at most; ask for {room} or "
            "less.",
            field="amount",
        )


def _check_longest(ask: Ask, own: int, start: datetime) -> None:
    """Raises Invalid for hours that an account above would not let anybody use."""
    owner = ask.owner
    if isinstance(owner, Project):
        project_id, team_id, key = owner.pk, owner.team_id, f"project:{owner.pk}"
    else:
        project_id, team_id, key = 0, owner.pk, f"team:{owner.pk}"
    above = longest_on_the_way(project_id, team_id, ask.pool, now=start, but=key)
    if above is not None and own + ask.amount > above[1]:
        more = above[1] - own
        instead = f"ask for {more} at most, or for" if more > 0 else "ask for"
        raise Invalid(
            f"{own} hours and {ask.amount} more go beyond the {above[1]} of the account above; "
            f"{instead} more for the account above first.",
            field="amount",
        )


def check_open(actor: User, ask: Ask, *, now: datetime) -> None:
    """What this person asks for beside it. Raises Invalid for the same once more, while it is open,
    and for too many; Conflict for what was granted just now.
    """
    mine = QuotaRequest.objects.filter(asked_by=actor)
    opened = mine.filter(state__in=OPEN_REQUEST_STATES)
    if opened.count() >= MOST_OPEN:
        raise Invalid(f"You have {MOST_OPEN} open requests. Withdraw one first.", field="owner")
    alike = Q(kind=ask.kind, pool=ask.pool, gpu_model=ask.gpu_model)
    if isinstance(ask.owner, Project):
        alike &= Q(project=ask.owner)
    else:
        alike &= Q(team=ask.owner, project=None)
    _refuse_again(mine.filter(alike), ask, now)
    same = opened.filter(alike)
    if ask.kind is RequestKind.RESERVATION:
        same = same.filter(
            versions__number=F("revision"),
            versions__valid_from__lt=ask.valid_until,
            versions__valid_until__gt=ask.valid_from,
        )
    other = same.first()
    if other is not None:
        raise Invalid(f"{other} asks for the same and is open. Revise that one.", field="kind")


def _refuse_again(alike: QuerySet[QuotaRequest], ask: Ask, now: datetime) -> None:
    """Raises Conflict for what a rule has granted just now: its reply may have been lost."""
    before = alike.filter(
        created_at__gt=now - _JUST_NOW,
        decisions__decided_by=None,
        decisions__outcome=Outcome.APPROVE,
        granted__revoked_at=None,
        versions__number=F("revision"),
        versions__amount=ask.amount,
        versions__justification=ask.justification,
        versions__valid_until__range=(ask.valid_until - _JUST_NOW, ask.valid_until + _JUST_NOW),
    ).first()
    if before is not None:
        raise Conflict(
            f"{before} asked for just this, and a rule has granted it. To ask for as much again, "
            "give another reason.",
            code="asked_again",
            facts={"request": before.pk},
        )
