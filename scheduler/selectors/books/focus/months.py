"""Which month an export is of, as of which close, and its side file."""

from __future__ import annotations

from accounts.errors import Conflict, Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.ledger.focus.rows import moment
from scheduler.ledger.periods import Month, PeriodState
from scheduler.models import Period, PeriodClose


def billing_period(viewer: User, period: str, *, issuer: str = "Trainyard") -> dict[str, str]:
    """The side file's one row: when a closed month was made and last changed, and how it stands."""
    row, close = closed_month(viewer, period)
    first = PeriodClose.objects.filter(period=row).order_by("version").first() or close
    month = Month.parse(row.name)
    return {
        "BillingPeriodCreated": moment(int(first.closed_at.timestamp())),
        "BillingPeriodEnd": moment(month.end_s),
        "BillingPeriodLastUpdated": moment(int(close.closed_at.timestamp())),
        "BillingPeriodStart": moment(month.start_s),
        "BillingPeriodStatus": "Closed" if row.state == PeriodState.CLOSED else "Open",
        "InvoiceIssuerName": issuer,
    }


def close_version(viewer: User, period: str) -> int:
    """Which close an export is of. Raises what `focus_rows` does."""
    return closed_month(viewer, period)[1].version


def closed_month(viewer: User, period: str) -> tuple[Period, PeriodClose]:
    """A month and its last close, for those who keep or audit the books. Raises what `focus_rows`
    does."""
    if not can(viewer, "read_books", None):
        raise Forbidden("Only those who keep or audit the books export them. Ask an administrator.")
    row = Period.objects.filter(name=period).first()
    if row is None:
        raise NotFound("There are no books for this month.")
    close = PeriodClose.objects.filter(period=row).order_by("-version").first()
    if close is None:
        raise Conflict(f"{period} is not closed yet; close it first.")
    return row, close
