"""Assets that leave before their time: proposed by one person, agreed to by another."""

from __future__ import annotations

from datetime import date, datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.permissions import people_who_can
from accounts.services.audit import record
from scheduler.ledger.periods import Month
from scheduler.models import Asset, TermsDecision
from scheduler.services.books.policies import first_open
from scheduler.services.books.posting import require_bookkeeper
from scheduler.services.errors import Conflict, Forbidden, Invalid

_PROPOSAL = ("retire_on", "retired_reason", "retire_proposed_by")


@transaction.atomic
def retire_asset(
    *, actor: User, asset: Asset, on: date, reason: str, now: datetime | None = None
) -> Asset:
    """Propose that it leaves on a day in a month that is not closed; what is left is given up.

    It does once a second person agrees, or at once where nobody else keeps the books. Raises
    Invalid, Conflict for an asset that is not in service or whose end is proposed already.
    """
    require_bookkeeper(actor)
    row = _locked(asset)
    if row.decision != TermsDecision.APPROVED or row.retired_on is not None:
        raise Conflict("Only assets in service are retired, once.")
    if row.retire_on is not None:
        raise Conflict(
            f"Its end on {row.retire_on} is proposed already; agree to it or decline it."
        )
    if not reason.strip():
        raise Invalid("Say why it is out of service before its time.", field="reason")
    if on < row.since or Month(on.year, on.month) < first_open():
        raise Invalid("Choose a day in a month that is not closed, not before its use.", field="on")
    row.retire_on, row.retired_reason = on, reason.strip()[:255]
    row.retire_proposed_by = actor
    row.save(update_fields=_PROPOSAL)
    after = {"on": str(on)}
    record(actor, "asset.propose_end", row, after=after, reason=row.retired_reason, now=now)
    if not people_who_can("keep_books", None).exclude(pk=actor.pk).exists():
        return _retired(actor, row, now)
    return row


@transaction.atomic
def approve_retirement(*, actor: User, asset: Asset, now: datetime | None = None) -> Asset:
    """Let it leave as proposed. Raises Forbidden for who proposed it, Conflict if too late."""
    row = _proposed(actor, asset)
    if row.retire_proposed_by_id == actor.pk:
        raise Forbidden("You proposed this; another person has to approve it.")
    return _retired(actor, row, now)


@transaction.atomic
def decline_retirement(*, actor: User, asset: Asset, now: datetime | None = None) -> Asset:
    """It stays; whoever proposed its end may take that back so."""
    row = _proposed(actor, asset)
    before = {"on": str(row.retire_on)}
    row.retire_on, row.retired_reason, row.retire_proposed_by = None, "", None
    row.save(update_fields=_PROPOSAL)
    record(actor, "asset.decline_end", row, before=before, now=now)
    return row


def _locked(asset: Asset) -> Asset:
    return Asset.objects.select_for_update(of=("self",)).get(pk=asset.pk)


def _proposed(actor: User, asset: Asset) -> Asset:
    require_bookkeeper(actor)
    row = _locked(asset)
    if row.retired_on is not None or row.retire_on is None:
        raise Conflict("No end of this asset is proposed; somebody else has decided, or nobody.")
    return row


def _retired(actor: User, row: Asset, now: datetime | None) -> Asset:
    assert row.retire_on is not None
    if Month(row.retire_on.year, row.retire_on.month) < first_open():
        raise Conflict(f"{row.retire_on:%Y-%m} was closed meanwhile; propose a later day.")
    row.retired_on, row.retired_by = row.retire_on, actor
    row.save(update_fields=["retired_on", "retired_by"])
    after = {"on": str(row.retired_on)}
    moment = now or timezone.now()
    record(actor, "asset.retire", row, after=after, reason=row.retired_reason, now=moment)
    return row
