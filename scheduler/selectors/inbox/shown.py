"""What the inbox shows, as a condition of the database: for the number at the bell, which comes
with the row of a page and asks nothing by itself.

The same rules as in `things.py`, which reads what they need for many people; each word of news has
its line in both, and a test holds them against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from django.db.models import (
    BigIntegerField,
    BooleanField,
    Case,
    Exists,
    Model,
    OuterRef,
    Q,
    QuerySet,
    Value,
    When,
)
from django.db.models.functions import Cast, Substr

from accounts.models import User
from accounts.permissions import (
    acting_for,
    can,
    projects_visible_to,
    team_ids_acted_for,
    team_ids_for,
)
from scheduler.models import (
    Budget,
    BulkCancel,
    Job,
    JobSchedule,
    JobSet,
    QuotaRequest,
    RequestDecision,
    Statement,
)
from scheduler.selectors.requesting.lists import sees_all

_NUMBER = BigIntegerField()


def shown_to(viewer: User) -> Case:
    """Of notifications: those about what the viewer may see now. No statement of its own."""
    cases = [
        When(subject__startswith=f"{word}:", then=Exists(_numbered(things(viewer), word)))
        for word, things in THINGS.items()
    ]
    hidden = [
        When(Q(subject=word) | Q(subject__startswith=f"{word}:"), then=Value(False))
        for word, action in OF_CLUSTER.items()
        if not can(viewer, action, None)
    ]
    return Case(*cases, *hidden, default=Value(True), output_field=BooleanField())


def _numbered(things: QuerySet[Model], word: str) -> QuerySet[Model]:
    """Those of the number that follows the word."""
    key = "number" if things.model is Statement else "pk"
    return things.filter(**{key: Cast(Substr(OuterRef("subject"), len(word) + 2), _NUMBER)})


def _in_projects(model: type[Model]) -> Callable[[User], QuerySet[Model]]:
    def seen(viewer: User) -> QuerySet[Model]:
        rows = model._default_manager.order_by()
        if can(viewer, "see_jobs", None):
            return rows
        return rows.filter(project__in=projects_visible_to(viewer).order_by().values("pk"))

    return seen


def _of_teams(field: str, teams: Collection[int] | None) -> Q:
    """None: every team."""
    return Q(**({f"{field}__isnull": False} if teams is None else {f"{field}__in": teams}))


def _budgets(viewer: User) -> QuerySet[Model]:
    rows = Budget.objects.order_by()
    if can(viewer, "keep_books", None):
        return rows
    teams = team_ids_for(viewer, "view_costs")
    own, below = (_of_teams(f"account__{name}", teams) for name in ("team", "project__team"))
    return rows.filter(own | below)


def _requests(viewer: User) -> QuerySet[Model]:
    rows = QuotaRequest.objects.order_by()
    lent = ("decide_requests", "decide_spending")
    if sees_all(viewer) or any(acting_for(viewer, one, None) for one in lent):
        return rows
    decided = RequestDecision.objects.filter(request=OuterRef("pk"), decided_by=viewer).order_by()
    seen = Q(asked_by=viewer) | Q(assigned_to=viewer) | Q(Exists(decided))
    seen |= _of_teams("team", team_ids_for(viewer, "approve_requests"))
    return rows.filter(seen | _of_teams("team", team_ids_acted_for(viewer, "approve_requests")))


def _cancels(viewer: User) -> QuerySet[Model]:
    rows = BulkCancel.objects.order_by()
    if can(viewer, "operate", None):
        return rows
    named = Job.objects.filter(bulk_cancels=OuterRef("pk")).order_by()
    own = Q(owner=viewer, project__in=projects_visible_to(viewer, "submit_job").values("pk"))
    may_end = own | Q(project__in=projects_visible_to(viewer, "manage_project").values("pk"))
    return rows.filter(
        Q(proposed_by=viewer) | Q(Exists(named)) & ~Q(Exists(named.exclude(may_end)))
    )


def _statements(viewer: User) -> QuerySet[Model]:
    rows = Statement.objects.order_by()
    teams = team_ids_for(viewer, "view_costs")
    if can(viewer, "read_books", None):
        return rows
    if teams is None:
        return rows.filter(account__startswith="team:")
    seen = Q(pk__in=[])
    for team in teams:
        seen |= Q(account=f"team:{team}") | Q(account__startswith=f"team:{team}/")
    return rows.filter(seen)


THINGS: Mapping[str, Callable[[User], QuerySet[Model]]] = {
    "job": _in_projects(Job),
    "set": _in_projects(JobSet),
    "schedule": _in_projects(JobSchedule),
    "budget": _budgets,
    "request": _requests,
    "bulk_cancel": _cancels,
    "statement": _statements,
}
OF_CLUSTER: Mapping[str, str] = {"node": "operate", "invariants": "operate", "month": "keep_books"}
