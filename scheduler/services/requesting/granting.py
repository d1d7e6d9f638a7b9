"""What was agreed becomes a grant, part of a budget or a booking, in the transaction of the
decision; how it ends: at its time, or revoked before."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can, managed_for
from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Booking, Budget, Grant, Quota, QuotaRequest
from scheduler.money import MOST_MONEY, from_steps, steps_of
from scheduler.selectors.calendar.bookings import may_book
from scheduler.selectors.sharing.promised.granted import least_room
from scheduler.services.bookings.closing import give_back
from scheduler.services.bookings.planning import locked
from scheduler.services.bookings.requested import book_agreed
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.holding.reasons import written
from scheduler.services.requesting.amounts import (
    BUDGET_KINDS,
    FIELD_OF,
    S_PER_HOUR,
    budget_at,
    quota_for,
)
from scheduler.services.requesting.ending import say_revoked, with_reason
from scheduler.services.requesting.rights import asks, locked_request, locked_row, owner_of
from scheduler.services.requesting.timeline import link_to, mail, note, tell_asker, title_of
from scheduler.services.rows.counters import room_for_more
from scheduler.services.rows.locking import lock_ends, lock_starts
from scheduler.services.sharing.budgets import may_set_budget, set_for
from scheduler.services.sharing.grants import give_grant, revoke_grant
from scheduler.services.sharing.guard import counts_now
from scheduler.services.sharing.tree import account_of, below
from scheduler.states import NoticeKind, Outcome, RequestKind

# Who agreed, nobody where a rule did, and in whose place, if in anybody's.
Who: TypeAlias = tuple[User | None, User | None]


def carry_out(
    request: QuotaRequest,
    *,
    who: Who,
    amount: int,
    valid_from: datetime,
    valid_until: datetime,
    now: datetime,
) -> dict[str, object]:
    """Fields of the request to store along; without a person a rule grants it. Raises Conflict if
    it cannot be granted any more.
    """
    start = max(now, valid_from)
    if valid_until <= start:
        raise Conflict("Its time is over; ask back for another one.", code="time_is_over")
    if request.kind in BUDGET_KINDS:
        budget = _budget(request, start)
        _raise_budget(budget, amount)
        return {"budget": budget, "returns_at": min(valid_until, budget.valid_until)}
    if request.kind == RequestKind.RESERVATION:
        return {"booking": _book(request, who, amount, start, valid_until, now)}
    grant = _grant(request, who, amount, start, valid_until, now)
    return {"granted": grant}


def _book(
    request: QuotaRequest,
    who: Who,
    amount: int,
    start: datetime,
    valid_until: datetime,
    now: datetime,
) -> Booking:
    assert request.pool is not None
    return book_agreed(
        actor=who[0],
        on_behalf_of=who[1],
        asked_by=request.asked_by,
        owner=owner_of(request),
        pool=request.pool,
        gpu_model=request.gpu_model,
        gpus=amount,
        from_at=start,
        until_at=valid_until,
        note=str(request),
        now=now,
    )


def _budget(request: QuotaRequest, start: datetime) -> Budget:
    is_money = request.kind == RequestKind.MONEY
    budget = budget_at(owner_of(request), start, is_money=is_money)
    if budget is None or (is_money and budget.currency != load_conf().currency):
        raise Conflict("There is no budget any more that this could be added to.", code="no_limit")
    return budget


def _grant(
    request: QuotaRequest,
    who: Who,
    amount: int,
    start: datetime,
    valid_until: datetime,
    now: datetime,
) -> Grant:
    kind = RequestKind(request.kind)
    quota = _quota(request, kind)
    added = {FIELD_OF[kind]: amount}
    if kind is RequestKind.GUARANTEED:
        # A guarantee that the maximum cuts off would be none.
        room = least_room(quota, start, valid_until)
        added["maximum"] = 0 if room is None else max(0, amount - room)
    return give_grant(
        actor=who[0],
        on_behalf_of=who[1],
        quota=quota,
        valid_from=start,
        valid_until=valid_until,
        reason=f"{request}: {request.kind}",
        now=now,
        **added,
    )


def _quota(request: QuotaRequest, kind: RequestKind) -> Quota:
    """The row to grant on; a first guarantee begins from one that limits nothing."""
    owner = owner_of(request)
    quota = quota_for(owner, request.pool, request.gpu_model)
    if quota is None and kind is RequestKind.GUARANTEED:
        lock_starts()
        account = account_of(owner)
        lock_ends(below(account, "job__project"))
        quota = Quota.objects.create(
            account=account, pool=request.pool, gpu_model=request.gpu_model
        )
        Quota.objects.filter(pk=quota.pk).update(**counts_now(quota))
        quota.refresh_from_db()
    if quota is None or (
        kind is not RequestKind.GUARANTEED and getattr(quota, FIELD_OF[kind]) is None
    ):
        raise Conflict(
            "The limit that this would add to has been taken away; there is nothing to grant.",
            code="no_limit",
        )
    return quota


def _raise_budget(budget: Budget, amount: int) -> None:
    """So many GPU-hours, or units of its currency, on top of the limit as it was set."""
    more = _in_its_measure(budget, amount)
    if budget.is_money and more > room_for_more(budget):
        raise Conflict(
            f"This budget can become {MOST_MONEY:f} {budget.currency} at most; approve less.",
            code="limit_too_high",
        )
    measure = "money" if budget.is_money else "gpu_seconds"
    # Another version: its alerts go off anew, and a hard stop is looked at anew.
    Budget.objects.filter(pk=budget.pk).update(
        **{measure: F(measure) + more},
        granted=F("granted") + more,
        version=F("version") + 1,
        spent_out_at=None,
        looked_at=None,
    )
    events.wake_scheduler_on_commit()


@transaction.atomic
def take_back(request_id: int, *, now: datetime) -> bool:
    """Once the time of what was granted is over: what of it is neither used nor committed."""
    request = locked_row(request_id)
    if request.returns_at is None or request.returns_at > now:
        return False
    _return(request, None, now)
    return True


def may_revoke(actor: User, request: QuotaRequest) -> bool:
    """Whether this person may end what such a request grants."""
    if request.booking_id is not None:
        return asks(actor, request) or may_book(actor, owner_of(request))
    if request.kind not in BUDGET_KINDS:
        return can(actor, "operate", None)
    is_money = request.kind == RequestKind.MONEY
    return may_set_budget(actor, owner_of(request), is_money=is_money)


def is_in_force(request: QuotaRequest, now: datetime) -> bool:
    """Whether something that was granted counts, or will, and has not been ended."""
    grant = request.granted
    if grant is not None:
        return grant.revoked_at is None and grant.valid_until > now
    if request.booking is not None:
        return not request.booking.closed_as and request.booking.until_at > now
    return request.returns_at is not None


@transaction.atomic
def revoke_granted(
    *, actor: User, request_id: int, version: int, reason: str = "", now: datetime | None = None
) -> QuotaRequest:
    """What was granted ends now, before its time: GPUs and hours count no more, of a budget what is
    not used goes back, a booking is given back. Final. Raises Forbidden for who may not set such
    limits or book, Conflict, ReasonNeeded without a reason where others' jobs are in the booking.
    """
    now = now or timezone.now()
    request, said = locked_request(request_id, version), written(reason)
    if not may_revoke(actor, request):
        raise Forbidden("Only those who may set such a limit or budget by hand end this.")
    if request.granted_id is not None:
        revoke_grant(actor=actor, grant_id=request.granted_id, now=now)
        say_revoked(request, actor, "What runs goes on.", said=said, now=now)
        return request
    if request.booking_id is not None:
        _give_back(request, actor, said, now)
        return request
    if request.returns_at is None:
        raise Conflict("There is nothing granted, or it has come to its end.", code="is_over")
    _return(request, actor, now, said)
    return request


def _give_back(request: QuotaRequest, actor: User, said: str, now: datetime) -> None:
    """The booking ends with what it came from; raises Conflict, ReasonNeeded."""
    assert request.booking is not None
    give_back(booking := locked(request.booking, None), actor=actor, reason=said, now=now)
    said = str(booking.cut_short.get("because", ""))  # without the secrets of jobs inside
    QuotaRequest.objects.filter(pk=request.pk).update(version=F("version") + 1, touched_at=now)
    request.refresh_from_db()
    text = with_reason("Its booking is given back; jobs inside are stopped.", said)
    giver = None if asks(actor, request) else managed_for(actor, owner_of(request))
    note(request, "revoked", actor=actor, on_behalf_of=giver, now=now, text=text)
    if actor.pk != request.asked_by_id:
        tell_asker(request, "was revoked", text, now=now)


def _return(request: QuotaRequest, actor: User | None, now: datetime, said: str = "") -> None:
    """A budget that is over keeps its figures: nothing can be used of it any more."""
    budget = None
    if request.budget_id is not None:
        budget = Budget.objects.select_for_update().filter(pk=request.budget_id).first()
    QuotaRequest.objects.filter(pk=request.pk).update(
        returns_at=None, version=F("version") + 1, touched_at=now
    )
    request.refresh_from_db(fields=["returns_at", "version", "touched_at"])
    is_money = request.kind == RequestKind.MONEY
    giver = set_for(actor, owner_of(request), is_money=is_money) if actor else None
    if budget is None or budget.valid_until <= now:
        text = with_reason("Its budget has ended.", said)
        note(request, "returned", actor=actor, on_behalf_of=giver, now=now, text=text)
        return
    back = _taken_from(budget, request)
    words = (
        f"{from_steps(back):.2f} {budget.currency}"
        if budget.is_money
        else f"{back / S_PER_HOUR:g} GPU-hours"
    )
    text = with_reason(f"{words} were not used and are taken back", said)
    note(request, "returned", actor=actor, on_behalf_of=giver, now=now, text=text)
    mail(
        [request.asked_by_id],
        request=request,
        kind=NoticeKind.REQUEST_DECIDED,
        said=text,
        key=f"request:{request.pk}:returned",
        subject=f"{request}: {title_of(request)} has come to its end",
        text=f"{text}.\n\n{link_to(request)}\n",
        now=now,
    )
    events.wake_scheduler_on_commit()


def _taken_from(budget: Budget, request: QuotaRequest) -> int:
    """How much went back, in the budget's measure; what was used of it stays part of the limit."""
    said = request.decisions.filter(outcome__in=(Outcome.APPROVE, Outcome.LESS)).last()
    assert said is not None
    assert said.amount is not None
    unused = max(0, budget.limit - budget.spent - budget.committed)
    back = min(_in_its_measure(budget, said.amount), unused)
    measure = "money" if budget.is_money else "gpu_seconds"
    Budget.objects.filter(pk=budget.pk).update(
        **{measure: F(measure) - back},
        granted=max(0, budget.granted - back),
        version=F("version") + 1,
        looked_at=None,
    )
    return back


def _in_its_measure(budget: Budget, amount: int) -> int:
    return steps_of(Decimal(amount)) if budget.is_money else amount * S_PER_HOUR
