"""Terms of pools, in force and proposed; for those who keep or audit the books."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.ledger.periods import Month
from scheduler.ledger.shares import IdlePolicy
from scheduler.models import DeviceSegment, Pool, PoolTerms, Recovery, TermsDecision
from scheduler.models.money.terms import PoliciesInWords, Unreachable

FIGURES = ("idle", "platform", "guarantee_percent", "refund_s", "recovery", "unreachable")

# What terms hold from that were to hold from the first open month before any was closed.
FIRST_MONTH = "1970-01"


@dataclass(frozen=True, slots=True)
class Terms(PoliciesInWords):
    """A pool's terms in a month, as rows or the usual ones say."""

    idle: str = IdlePolicy.NONE
    platform: str = IdlePolicy.NONE
    guarantee_percent: int = 50
    refund_s: int = 0
    recovery: str = Recovery.RATES
    unreachable: str = Unreachable.PLATFORM

    @property
    def unreachable_words(self) -> str:
        """Who pays for what a silent node holds, as pages say it."""
        return str(Unreachable(self.unreachable).label)


def terms_of(month: Month, *, as_of: datetime | None = None) -> dict[int, Terms]:
    """By pool: the newest approved row whose first month is not later; pools without one miss.

    `as_of`: of what was decided by then.
    """
    rows = PoolTerms.objects.filter(
        decision=TermsDecision.APPROVED, from_month__lte=str(month)
    ).order_by("from_month", "decided_at", "pk")
    if as_of is not None:
        rows = rows.filter(decided_at__lte=as_of)
    return {row.pool_id: Terms(*(getattr(row, name) for name in FIGURES)) for row in rows}


@dataclass(frozen=True, slots=True)
class Holding:
    """A pool and what holds in it this month; `is_usual` where nobody ever decided."""

    pool: str
    terms: Terms
    is_usual: bool


@dataclass(frozen=True, slots=True)
class Proposed:
    """Terms that wait, and the names of what they change of what holds from their month on."""

    row: PoolTerms
    changes: frozenset[str]


@dataclass(frozen=True, slots=True)
class TermsDesk:
    """What holds now, what waits for a second person, and what was decided, the newest first.

    `begins`: the first month of the books, which rows without an earlier bound hold from.
    """

    month: str
    begins: str
    holding: Sequence[Holding]
    waiting: Sequence[Proposed]
    decided: Sequence[PoolTerms]


def desk_of_terms(viewer: User, *, now: datetime | None = None) -> TermsDesk:
    """Everything about terms; four queries. Raises Forbidden."""
    rows = terms_so_far(viewer)
    month = Month.of(int((now or timezone.now()).timestamp()))
    known = terms_of(month)
    pools = Pool.objects.order_by("name").values_list("pk", "name")
    return TermsDesk(
        month=str(month),
        begins=str(_begins(month)),
        holding=[Holding(name, known.get(pk, Terms()), pk not in known) for pk, name in pools],
        waiting=_waiting(rows),
        decided=[row for row in rows if row.decision != TermsDecision.PROPOSED],
    )


def _begins(here: Month) -> Month:
    first = DeviceSegment.objects.order_by("pk").values_list("start_s", flat=True).first()
    return here if first is None else Month.of(first)


def _waiting(rows: Sequence[PoolTerms]) -> list[Proposed]:
    approved = [row for row in rows if row.decision == TermsDecision.APPROVED]
    approved.sort(key=lambda row: (row.from_month, row.decided_at, row.pk), reverse=True)
    found = []
    for row in rows:
        if row.decision != TermsDecision.PROPOSED:
            continue
        known = (one for one in approved if one.pool_id == row.pool_id)
        before = next((one for one in known if one.from_month <= row.from_month), Terms())
        changes = {name for name in FIGURES if getattr(row, name) != getattr(before, name)}
        if "guarantee_percent" in changes:
            policies = ("idle", "platform")
            changes |= {name for name in policies if getattr(row, name) == IdlePolicy.HYBRID}
        found.append(Proposed(row, frozenset(changes)))
    return found


def terms_so_far(viewer: User) -> Sequence[PoolTerms]:
    """All rows, the newest first. Raises Forbidden."""
    if not can(viewer, "read_books", None):
        raise Forbidden(
            "Only those who keep or audit the books may see them. Ask an administrator."
        )
    return list(PoolTerms.objects.select_related("pool", "proposed_by", "decided_by"))


def get_visible_terms(viewer: User, pk: int) -> PoolTerms:
    """One row; raises NotFound, also for those who may not see it."""
    found = PoolTerms.objects.select_related("pool").filter(pk=pk).first()
    if found is None or not can(viewer, "read_books", None):
        raise NotFound("There are no such terms.")
    return found
