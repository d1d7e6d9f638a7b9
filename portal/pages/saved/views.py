"""Saved views: tabs above a table, each a query string under a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.models import Team, User
from accounts.selectors import get_visible_team
from portal.pages.access import page, said_and_back, viewer_of
from scheduler.models import SavedView
from scheduler.selectors.saved import default_view, visible_views
from scheduler.services.errors import NotFound
from scheduler.services.saved import delete_view, rename_view, save_view, set_default

# A view of a report names it: `report=capacity&by=pool`; the index leads there.
ROUTES = {"jobs": "jobs:list", "audit": "audit:list", "reports": "finance:index"}
REPORT = "report"
# Where in the list one is, and in which shape it is asked for, belongs to no view.
_NOT_KEPT = frozenset({"cursor", "top", "part", "after", "format"})


@dataclass(frozen=True, slots=True)
class Tab:
    """One saved view as a link."""

    view: SavedView
    url: str
    is_current: bool
    is_mine: bool


@dataclass(frozen=True, slots=True)
class Tabs:
    """What `saved/_views.html` shows: the views, the present query, teams to share with."""

    table: str
    tabs: tuple[Tab, ...]
    query: str
    teams: tuple[Team, ...]

    @property
    def current(self) -> Tab | None:
        """The own view that is open, if one is."""
        return next((tab for tab in self.tabs if tab.is_current and tab.is_mine), None)


def kept_query(pairs: Iterable[tuple[str, str]]) -> str:
    """The part of a query string that a view keeps, always written alike."""
    return urlencode([(name, value) for name, value in pairs if value and name not in _NOT_KEPT])


def tabs_of(request: HttpRequest, viewer: User, table: str) -> Tabs:
    """The views of a table for this page; two queries."""
    here = kept_query((name, str(value)) for name, value in request.GET.items())
    base = reverse(ROUTES[table])
    rows = visible_views(viewer, table)[:40]
    tabs = tuple(
        Tab(view, f"{base}?{view.query}", view.query == here, view.person_id == viewer.pk)
        for view in rows
    )
    teams = tuple(one.team for one in viewer.memberships.select_related("team"))
    return Tabs(table, tabs, here, teams)


def report_views(viewer: User) -> tuple[Tab, ...]:
    """The views of reports, for the index of finance; one query."""
    base, rows = reverse(ROUTES["reports"]), visible_views(viewer, "reports")[:40]
    return tuple(
        Tab(view, f"{base}?{view.query}", False, view.person_id == viewer.pk) for view in rows
    )


def report_query(request: HttpRequest, slug: str) -> str:
    """What a view of this report keeps: its name and the present query."""
    sent = ((name, str(value)) for name, value in request.GET.items() if name != REPORT)
    return kept_query([(REPORT, slug), *sent])


def opened_by_default(request: HttpRequest, viewer: User, table: str) -> HttpResponseBase | None:
    """A table asked for without any parameter opens with its default view; None: as it is."""
    if request.GET:
        return None
    view = default_view(viewer, table)
    return redirect(f"{reverse(ROUTES[table])}?{view.query}") if view and view.query else None


@page("POST")
def view_save(request: HttpRequest) -> HttpResponseBase:
    """Keep the present query string under a name."""
    viewer, sent = viewer_of(request), request.POST
    table, query = sent.get("table", ""), sent.get("query", "")
    if table not in ROUTES:
        raise NotFound()
    query = kept_query(parse_qsl(query[:4000]))
    team = get_visible_team(viewer, sent["team"]) if sent.get("team") else None

    def act() -> str:
        view = save_view(
            actor=viewer, table=table, name=sent.get("name", ""), query=query, team=team
        )
        return f"Saved as {view.name}."

    back = said_and_back(request, act, ROUTES[table])
    back["Location"] = f"{reverse(ROUTES[table])}?{query}" if query else back["Location"]
    return back


@page("POST")
def view_change(request: HttpRequest, pk: int) -> HttpResponseBase:
    """`action`: rename (with `name`), default, no-default, delete."""
    viewer, action = viewer_of(request), request.POST.get("action", "")
    view = visible_views(viewer).filter(pk=min(pk, 2**63 - 1)).first()
    if view is None or view.table not in ROUTES:
        raise NotFound()

    def act() -> str:
        if action == "delete":
            delete_view(actor=viewer, view=view)
            return f"{view.name} is deleted."
        if action == "rename":
            renamed = rename_view(actor=viewer, view=view, name=request.POST.get("name", ""))
            return f"It is named {renamed.name} now."
        set_default(actor=viewer, view=view, is_default=action == "default")
        return f"{view.name} opens first." if action == "default" else "All of it opens first."

    back = said_and_back(request, act, ROUTES[view.table])
    back["Location"] = f"{reverse(ROUTES[view.table])}?{view.query or 'q='}"
    return back
