"""Amounts by hand: proposed by one person with a reason, posted by another."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, Inexact

from django.db import transaction
from django.utils import timezone

from accounts.models import Project, User
from accounts.services.audit import Subject, record
from scheduler.conf import load_conf
from scheduler.ledger.entries import RECOVERY, Entry, EntryKind, posting, project_account
from scheduler.ledger.exact import plain
from scheduler.ledger.periods import Month
from scheduler.models import Adjustment
from scheduler.services.books.posting import post_entries, require_bookkeeper
from scheduler.services.errors import Conflict, Forbidden, Invalid

_MOST = Decimal(10) ** 12


@transaction.atomic
def propose_adjustment(
    *, actor: User, project: Project, amount: Decimal, reason: str, now: datetime | None = None
) -> Adjustment:
    """An amount the project owes (or, negative, is owed); it counts once somebody else posts it."""
    require_bookkeeper(actor)
    if not amount.is_finite() or not 0 < abs(amount) <= _MOST:
        raise Invalid(f"Give an amount up to {_MOST}, not 0.", field="amount")
    try:
        plain(amount)
    except Inexact:
        raise Invalid("Use at most 15 decimals.", field="amount") from None
    if not reason.strip():
        raise Invalid("Say what the amount is for.", field="reason")
    same = {"project": project, "amount": amount, "reason": reason.strip()[:255]}
    if Adjustment.objects.filter(**same, proposed_by=actor, decided_at=None).exists():
        raise Conflict("You proposed just this already, and it waits for a second person.")
    adjustment = Adjustment.objects.create(
        project=project,
        amount=amount,
        currency=load_conf().currency,
        reason=reason.strip()[:255],
        proposed_by=actor,
        proposed_at=now or timezone.now(),
    )
    _record(actor, "adjustment.propose", adjustment, now)
    return adjustment


def _record(actor: User, action: str, adjustment: Adjustment, now: datetime | None) -> None:
    project = adjustment.project
    label = f"adjustment {adjustment.pk} of {project.path}"
    after = {"amount": adjustment.amount, "currency": adjustment.currency}
    about = Subject("adjustment", str(adjustment.pk), label, project.team_id)
    record(actor, action, about, after=after, reason=adjustment.reason, now=now)


@transaction.atomic
def post_adjustment(
    *, actor: User, adjustment: Adjustment, now: datetime | None = None
) -> Adjustment:
    """Post a proposed amount into the month of now. Raises Forbidden for who proposed it."""
    now = now or timezone.now()
    adjustment = _open(actor, adjustment)
    if adjustment.proposed_by_id == actor.pk:
        raise Forbidden("You proposed this amount; another person has to post it.")
    month = str(Month.of(int(now.timestamp())))
    project = adjustment.project
    (entry,) = post_entries(
        [
            posting(
                Entry(
                    batch=f"adjustment {adjustment.pk}",
                    kind=EntryKind.ADJUSTMENT,
                    period=month,
                    service_period=month,
                    debit=project_account(str(project.team_id), str(project.pk)),
                    credit=RECOVERY,
                    amount=adjustment.amount,
                    currency=adjustment.currency,
                    reason=adjustment.reason,
                    created_by=actor.username,
                )
            )
        ]
    )
    adjustment.entry, adjustment.decided_by, adjustment.decided_at = entry, actor, now
    adjustment.save(update_fields=["entry", "decided_by", "decided_at"])
    _record(actor, "adjustment.post", adjustment, now)
    return adjustment


@transaction.atomic
def decline_adjustment(
    *, actor: User, adjustment: Adjustment, now: datetime | None = None
) -> Adjustment:
    """Turn a proposed amount down; whoever proposed it may take it back so."""
    adjustment = _open(actor, adjustment)
    adjustment.decided_by, adjustment.decided_at = actor, now or timezone.now()
    adjustment.save(update_fields=["decided_by", "decided_at"])
    _record(actor, "adjustment.decline", adjustment, now)
    return adjustment


def _open(actor: User, adjustment: Adjustment) -> Adjustment:
    require_bookkeeper(actor)
    locked = (
        Adjustment.objects.select_for_update(of=("self",))
        .select_related("project")
        .get(pk=adjustment.pk)
    )
    if locked.decided_at is not None:
        raise Conflict("This amount was decided on already.")
    return locked
