"""Saved views: tabs above a table, each a query string under a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from accounts.models import User
from accounts.selectors import get_visible_team
from portal.pages.access import page, said_and_back, viewer_of
from scheduler.selectors.saved import visible_views
from scheduler.selectors.tables.around import Around, View, around_table
from scheduler.services.errors import NotFound
from scheduler.services.saved import delete_view, rename_view, save_view, set_default

# A view of a report names it: `report=capacity&by=pool`; the index leads there.
ROUTES = {"jobs": "jobs:list", "audit": "audit:list", "reports": "finance:index"}
REPORT = "report"
# A table asked for without any parameter opens with its default view.
EVERYTHING = "q="
# Where in the list one is, and in which shape it is asked for, belongs to no view.
_NOT_KEPT = frozenset({"cursor", "top", "part", "after", "format"})


@dataclass(frozen=True, slots=True)
class Tab:
    """One saved view as a link."""

    view: View
    url: str
    is_current: bool

    @property
    def is_mine(self) -> bool:
        """Whether it is the viewer's, and not only shared with them."""
        return self.view.is_mine


@dataclass(frozen=True, slots=True)
class Tabs:
    """What `saved/_views.html` shows: the views, the present query, teams to share with, and how
    many shared views more there are."""

    table: str
    tabs: tuple[Tab, ...]
    query: str
    teams: Sequence[tuple[str, str]]
    left_out: int

    @property
    def current(self) -> Tab | None:
        """The own view that is open, if one is."""
        return next((tab for tab in self.tabs if tab.is_current and tab.is_mine), None)


def kept_query(pairs: Iterable[tuple[str, str]]) -> str:
    """The part of a query string that a view keeps, always written alike."""
    return urlencode([(name, value) for name, value in pairs if value and name not in _NOT_KEPT])


def around_here(request: HttpRequest, viewer: User, table: str) -> Around:
    """What stands around the table, asked for once a request."""
    kept: dict[str, Around] = request.__dict__.setdefault("_around_tables", {})
    if table not in kept:
        kept[table] = around_table(viewer, table)
    return kept[table]


def tabs_of(request: HttpRequest, viewer: User, table: str) -> Tabs:
    """The views of a table for this page."""
    here = kept_query((name, str(value)) for name, value in request.GET.items())
    found = around_here(request, viewer, table)
    return Tabs(
        table, _tabs(found, reverse(ROUTES[table]), here), here, found.teams, found.left_out
    )


def report_views(request: HttpRequest, viewer: User) -> tuple[Tab, ...]:
    """The views of reports, for the index of finance."""
    return _tabs(around_here(request, viewer, "reports"), reverse(ROUTES["reports"]))


def _tabs(found: Around, base: str, here: str | None = None) -> tuple[Tab, ...]:
    return tuple(
        Tab(view, f"{base}?{view.query or EVERYTHING}", view.query == here) for view in found.views
    )


def report_query(request: HttpRequest, slug: str) -> str:
    """What a view of this report keeps: its name and the present query."""
    sent = ((name, str(value)) for name, value in request.GET.items() if name != REPORT)
    return kept_query([(REPORT, slug), *sent])


def opened_by_default(request: HttpRequest, viewer: User, table: str) -> HttpResponseBase | None:
    """A table asked for without any parameter opens with its default view; None: as it is."""
    if request.GET:
        return None
    view = around_here(request, viewer, table).default
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
    back["Location"] = f"{reverse(ROUTES[table])}?{query or EVERYTHING}"
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
    back["Location"] = f"{reverse(ROUTES[view.table])}?{view.query or EVERYTHING}"
    return back
