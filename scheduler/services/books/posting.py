"""Entries into the chain: numbered, sealed and stored under one lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from accounts.models import User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.ledger.entries import GENESIS, Entry, seal
from scheduler.ledger.findings import Finding
from scheduler.ledger.periods import PeriodState, may_post
from scheduler.models import LedgerEntry, LedgerHead, Period
from scheduler.services.errors import Conflict, Forbidden

_BATCH = 500
# No person's name has a space.
SYSTEM = "the system"


class CloseBlocked(Conflict):
    """A month that cannot be closed yet; `findings` say what is to be mended."""

    code = "close_blocked"

    def __init__(self, month: str, findings: Sequence[Finding]) -> None:
        shown = "; ".join(f"{finding.subject} {finding.words}" for finding in findings[:5])
        more = f"; and {len(findings) - 5} more" if len(findings) > 5 else ""
        super().__init__(
            f"{month} cannot be closed: {shown}{more}.",
            facts={
                "findings": [
                    {"trouble": str(f.trouble), "subject": f.subject, "words": f.words}
                    for f in findings
                ]
            },
        )
        self.findings = tuple(findings)


def require_bookkeeper(actor: User) -> None:
    """Raises Forbidden."""
    if not can(actor, "keep_books", None):
        raise Forbidden("Only those who keep the books may do this. Ask an administrator.")


def name_of(by: User | None) -> str:
    """Who an entry says has posted it; None is the system."""
    return by.username if by is not None else SYSTEM


def period_named(name: str) -> Period:
    """The month's row, made when it is first asked for."""
    return Period.objects.get_or_create(name=name, defaults={"currency": load_conf().currency})[0]


def stamp_of(period: Period) -> str:
    """State, version and who proposed to reopen it, as one word for a form."""
    return f"{period.state}.{period.version}.{period.reopen_proposed_by_id or 0}"


def require_unchanged(period: Period, seen: str) -> None:
    """Raises Conflict if a month is not as it was seen; an empty `seen` asks nothing."""
    if seen and seen != stamp_of(period):
        state = period.state.replace("_", " ")
        raise Conflict(
            f"{period.name} has changed since you looked at it: it is {state} now, version "
            f"{period.version}. Look again, then decide.",
            code="stale_version",
            facts={"seen": stamp_of(period)},
        )


def locked_head() -> LedgerHead:
    """The head of the chain, locked; made by the first one who asks.

    Locked before the rows of months, which every entry holds by its reference.
    """
    head = LedgerHead.objects.select_for_update().order_by("pk").first()
    return head or LedgerHead.objects.create(number=0, hash=GENESIS)


def post_entries(entries: Iterable[Entry]) -> list[LedgerEntry]:
    """Chain entries behind the last one and store them; call inside a transaction.

    Raises Conflict where a month does not take them.
    """
    drafts = list(entries)
    if not drafts:
        return []
    head = locked_head()
    periods = {name: period_named(name) for name in {e.period for e in drafts} | _services(drafts)}
    for entry in drafts:
        if not may_post(PeriodState(periods[entry.period].state), entry.kind):
            state = periods[entry.period].state.replace("_", " ")
            raise Conflict(f"{entry.period} is {state} and takes no {entry.kind} entry.")
    chain = list(seal(drafts, head=head.hash, first_number=head.number + 1))
    rows = [
        LedgerEntry(
            number=sealed.entry.number,
            batch=sealed.entry.batch,
            kind=sealed.entry.kind,
            period=periods[sealed.entry.period],
            service_period=periods[sealed.entry.service_period],
            debit=sealed.entry.debit,
            credit=sealed.entry.credit,
            amount=sealed.entry.amount,
            currency=sealed.entry.currency,
            sku=sealed.entry.sku,
            rate_id=int(sealed.entry.rate_id) if sealed.entry.rate_id else None,
            unit_price=sealed.entry.unit_price,
            gpu_seconds=sealed.entry.gpu_seconds,
            lines=sealed.entry.lines,
            lines_digest=sealed.entry.lines_digest,
            reason=sealed.entry.reason,
            created_by=sealed.entry.created_by,
            previous=sealed.previous,
            hash=sealed.hash,
        )
        for sealed in chain
    ]
    LedgerEntry.objects.bulk_create(rows, batch_size=_BATCH)
    LedgerHead.objects.filter(pk=head.pk).update(number=chain[-1].entry.number, hash=chain[-1].hash)
    return rows


def _services(drafts: Sequence[Entry]) -> set[str]:
    return {entry.service_period for entry in drafts}
