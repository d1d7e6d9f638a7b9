"""The routing table as it holds: by kind who decides and how soon, and what it decided lately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from accounts.errors import Forbidden
from accounts.models import User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.models import QuotaRequest, RequestDecision, RequestPolicy
from scheduler.selectors.requesting.lists import visible_requests
from scheduler.states import KIND_WORDS, RequestKind

# Of a month's cost, in the currency of the prices.
USUAL_MONEY_LIMIT = Decimal(10_000)
USUAL_SLA_HOURS, USUAL_MOST_DAYS = 48, 365
# What is booked is taken from everybody else, used or not.
USUAL_BOOKED_DAYS = 30
LATELY = timedelta(days=30)
_MOST_DECISIONS, _MOST_NAMED = 500, 5


@dataclass(frozen=True, slots=True)
class Routing:
    """What holds for one kind; `row` is None while nobody has laid anything down."""

    row: RequestPolicy | None
    money_limit: Decimal | None
    always_admin: bool
    sla_hours: int
    most_days: int
    auto_up_to: int | None = None

    def words(self, kind: str, currency: str) -> list[str]:
        """What it means for who asks for this kind (empty: any), a sentence each."""
        above = "finance" if kind == RequestKind.MONEY else "an administrator"
        if self.always_admin:
            found = ["A lead and an administrator decide."]
            if kind == RequestKind.MONEY:
                found.append("Finance does, too, above what the lead has free.")
        else:
            found = [f"A lead decides; above what the lead has free, {above} does, too."]
        if kind != RequestKind.WALLTIME:
            found.append(
                "No cost brings finance in."
                if self.money_limit is None
                else f"Finance decides, too, above {self.money_limit.normalize():,f} {currency} "
                "a month."
            )
        if self.auto_up_to is not None:
            found.append(
                f"Up to {self.auto_up_to} for a team within 30 days need nobody, where a lead "
                "alone could agree."
            )
        found.append(f"Each step within {self.sla_hours} h; for {self.most_days} days at most.")
        return found


@dataclass(frozen=True, slots=True)
class HeldRule:
    """The rule of one kind (empty: any). `source`: own, any (of the rule for any kind), usual.

    `decided` requests of the last 30 days were decided on under it; `latest` are the last of them.
    """

    kind: str
    routing: Routing
    source: str
    words: list[str]
    decided: int
    latest: list[QuotaRequest]

    @property
    def label(self) -> str:
        """The kind, for people."""
        return KIND_WORDS[RequestKind(self.kind)] if self.kind else "Any kind without its own rule"


@dataclass(frozen=True, slots=True)
class RuleDesk:
    """What holds, the rule for any kind first if there is one; and what was laid down, newest
    first."""

    held: list[HeldRule]
    history: Sequence[RequestPolicy]


def routing_of(kind: str) -> Routing:
    """The newest rule of this kind, else the newest for any kind, else what is usual."""
    return _routing(kind, RequestPolicy.objects.filter(kind__in=["", kind]).order_by("-id"))


def _routing(kind: str, rows: Iterable[RequestPolicy]) -> Routing:
    newest: dict[str, RequestPolicy] = {}
    for row in rows:
        newest.setdefault(row.kind, row)
    for scope in (kind, ""):
        found = newest.get(scope)
        if found is not None and not found.is_end:
            auto = found.auto_up_to if found.kind else None
            dials = (found.always_admin, found.sla_hours, found.most_days, auto)
            return Routing(found, found.money_limit, *dials)
    days = USUAL_BOOKED_DAYS if kind == RequestKind.RESERVATION else USUAL_MOST_DAYS
    return Routing(None, USUAL_MONEY_LIMIT, False, USUAL_SLA_HOURS, days)


def desk_of_rules(viewer: User, *, now: datetime) -> RuleDesk:
    """For who reads the settings of the cluster. Raises Forbidden."""
    if not can(viewer, "read_settings", None):
        raise Forbidden("Only those who run, pay for or audit the cluster see who decides.")
    rows = list(RequestPolicy.objects.select_related("created_by").order_by("-id"))
    decided = _decided_by(viewer, now - LATELY)
    held = []
    for kind in ("", *RequestKind):
        routing = _routing(kind, rows)
        row = routing.row
        if not kind and row is None:
            continue
        source = "usual" if row is None else "own" if row.kind == kind else "any"
        mine = [
            request
            for policy, request in decided
            if policy == (row.pk if row else None) and (not kind or request.kind == kind)
        ]
        words = routing.words(kind, load_conf().currency)
        held.append(HeldRule(kind, routing, source, words, len(mine), mine[:_MOST_NAMED]))
    return RuleDesk(held, rows)


def _decided_by(viewer: User, since: datetime) -> list[tuple[int | None, QuotaRequest]]:
    """Rule (None: the usual ones) and request, each pair once, the latest decision first; what was
    decided before rules were remembered is in none."""
    rows = (
        RequestDecision.objects.filter(
            at__gt=since, policy_version__isnull=False, request__in=visible_requests(viewer)
        )
        .select_related("request__team", "request__project")
        .order_by("-id")[:_MOST_DECISIONS]
    )
    return list(dict.fromkeys((row.policy_id, row.request) for row in rows))
