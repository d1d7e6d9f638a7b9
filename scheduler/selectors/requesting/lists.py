"""Who sees which requests: those who asked, those who may decide, and operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Sum,
    When,
    prefetch_related_objects,
)

from accounts.errors import NotFound
from accounts.models import User
from accounts.models.rows import as_rows, moment_in, rows_in
from accounts.permissions import acting_for, can, team_ids_acted_for, teams_visible_to
from scheduler.models import (
    QuotaRequest,
    RequestDecision,
    RequestEvent,
    RequestVersion,
    UsageEntry,
)
from scheduler.selectors.ordered.ordering import NUMBER, Column, in_order
from scheduler.states import RequestState

_VERSION = (
    "id",
    "number",
    "amount",
    "valid_from",
    "valid_until",
    "justification",
    "written_by_id",
    "written_at",
)
_USED_OVER = timedelta(days=90)
# Whoever runs the cluster, keeps its books or audits it sees what is asked of it.
SEE_ALL = ("administer", "operate", "read_books", "read_audit")


def visible_requests(viewer: User) -> QuerySet[QuotaRequest]:
    """Drafts are their writers' alone."""
    rows = QuotaRequest.objects.select_related(
        "team", "project__team", "pool", "asked_by", "granted", "assigned_to", "booking"
    )
    decided = RequestDecision.objects.filter(decided_by=viewer).values("request")
    seen = Q(pk__in=decided) | _others(viewer)
    return rows.filter(Q(asked_by=viewer) | (seen & ~Q(state=RequestState.DRAFT)))


def sees_all(viewer: User) -> bool:
    """Whether this person reads whatever is asked for, without a part in it."""
    return any(can(viewer, action, None) for action in SEE_ALL)


def _others(viewer: User) -> Q:
    if sees_all(viewer):
        # Not an empty Q: OR with that one would leave it out instead of letting all through.
        return ~Q(pk__in=[])
    led = teams_visible_to(viewer, "approve_requests").values("pk")
    return Q(team__in=led) | lent_reviews(viewer)


def lent_reviews(viewer: User) -> Q:
    """Reviews in which others let the viewer act in their place."""
    lent = team_ids_acted_for(viewer, "approve_requests")
    of_it = Q() if lent is None else Q(team__in=lent)
    found = Q(state=RequestState.LEAD_REVIEW) & of_it
    if acting_for(viewer, "decide_requests", None):
        found |= Q(state=RequestState.ADMIN_REVIEW)
    if acting_for(viewer, "decide_spending", None):
        found |= Q(state=RequestState.FINANCE_REVIEW)
    return found


def get_visible_request(viewer: User, pk: int) -> QuotaRequest:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = visible_requests(viewer).filter(pk=min(pk, 2**63 - 1)).first()
    if found is None:
        raise NotFound("There is no such request for you.")
    return found


def get_request_to_read(viewer: User, pk: int, *, now: datetime) -> QuotaRequest:
    """The same with what its page needs beside it: its versions, and as `used_gpu_s` what its
    owner used lately."""
    used = used_lately(now).order_by()
    of_project = _sum_of(used.filter(project=OuterRef("project")), "project")
    of_team = _sum_of(used.filter(project__team=OuterRef("team")), "project__team")
    texts = RequestVersion.objects.filter(request=OuterRef("pk")).order_by()
    rows = visible_requests(viewer).annotate(
        used=Case(When(project=None, then=of_team), default=of_project),
        texts=as_rows(texts, *_VERSION),
    )
    found: Any = rows.filter(pk=min(pk, 2**63 - 1)).first()
    if found is None:
        raise NotFound("There is no such request for you.")
    found.used_gpu_s = found.used or 0
    versions = found.versions.all()
    versions._result_cache = sorted(
        (_written(found, dict(zip(_VERSION, one, strict=True))) for one in rows_in(found.texts)),
        key=lambda version: version.number,
    )
    found._prefetched_objects_cache = {"versions": versions}
    return found


def used_lately(now: datetime) -> QuerySet[UsageEntry]:
    """What was used in the last 90 days."""
    return UsageEntry.objects.filter(period_start__gte=now - _USED_OVER)


def _sum_of(used: QuerySet[UsageEntry], owner: str) -> QuerySet[Any, Any]:
    return used.values(owner).annotate(sum=Sum("gpu_seconds")).values("sum")


def _written(request: QuotaRequest, fields: dict[str, Any]) -> RequestVersion:
    moments = ("valid_from", "valid_until", "written_at")
    times = {name: moment_in(fields[name]) for name in moments}
    return RequestVersion.from_db(
        "default", ["request_id", *fields], [request.pk, *(fields | times).values()]
    )


def read_history(request: QuotaRequest) -> None:
    """Read at once what its page and every right in it ask for: versions, decisions, events."""
    decisions = RequestDecision.objects.select_related(
        "decided_by", "on_behalf_of", "whatif", "policy"
    )
    events = RequestEvent.objects.select_related("actor", "on_behalf_of")
    prefetch_related_objects(
        [request], "versions", Prefetch("decisions", decisions), Prefetch("events", events)
    )


def my_requests(
    viewer: User, column: Column = NUMBER, *, falls: bool = True
) -> Sequence[tuple[QuotaRequest, RequestVersion]]:
    """The viewer's own with the version in force, by a column; one statement."""
    mine = visible_requests(viewer).filter(asked_by=viewer)
    return with_versions(in_order(mine, column, falls=falls))


def with_versions(rows: QuerySet[QuotaRequest]) -> list[tuple[QuotaRequest, RequestVersion]]:
    """Each with the version in force; one statement."""
    version = RequestVersion.objects.filter(request=OuterRef("pk"), number=OuterRef("revision"))
    asked = as_rows(version, "amount", "valid_from", "valid_until", "justification")
    return [(one, _version(one, one.asked)) for one in rows.annotate(asked=asked)]


def _version(request: QuotaRequest, text: str) -> RequestVersion:
    ((amount, begins, ends, words),) = rows_in(text)
    return RequestVersion(
        request=request,
        number=request.revision,
        amount=amount,
        valid_from=moment_in(begins),
        valid_until=moment_in(ends),
        justification=words,
    )
