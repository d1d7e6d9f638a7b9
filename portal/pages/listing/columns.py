"""Which columns a person sees of the table of jobs: said by the address, else kept for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from accounts.models import User
from accounts.services import keep_columns
from portal.forms.grammar.sorts import Sort
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.heads import Head, heads_of
from scheduler.selectors.ordered.columns import JOB_COLUMNS

# State and name always stand first.
COLUMNS: Mapping[str, str] = {
    "gpus": "GPUs",
    "project": "Project",
    "submitted": "Submitted",
    "started": "Started",
    "ended": "Ended",
    "finish_by": "Finished by",
    "group": "Group",
    "time": "Time of limit",
    "position": "Place",
    "tier": "Tier",
    "cost": "Cost so far",
}
_SET = {"time": "num", "cost": "num", "position": "num", "project": "hide-m", "submitted": "hide-m"}
USUAL = ("gpus", "project", "submitted", "time", "cost")
_NOT_KEPT = frozenset({"columns", "cursor", "top", "part"})


@dataclass(frozen=True, slots=True)
class Chosen:
    """The columns of a table in the order of `COLUMNS`."""

    names: tuple[str, ...]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def heads(self, sort: Sort) -> list[tuple[str, str, Head | None]]:
        """Of each the title, how it is set, and the order it gives, if it gives one."""
        orders = heads_of(sort, JOB_COLUMNS)
        return [(COLUMNS[one], _SET.get(one, ""), orders.get(one)) for one in self.names]

    @property
    def offers(self) -> list[tuple[str, str, bool]]:
        """Every column there is, and whether it is shown."""
        return [(name, title, name in self.names) for name, title in COLUMNS.items()]


def columns_here(request: HttpRequest, viewer: User, problems: list[str]) -> Chosen:
    """`?columns=gpus,cost`, else what was kept, else the usual ones."""
    text = request.GET.get("columns", "")
    asked = [word for word in text.split(",") if word]
    unknown = [word for word in asked if word not in COLUMNS]
    if unknown:
        problems.append(
            f"columns: there is no column {unknown[0][:40]!r}; choose from {', '.join(COLUMNS)}."
        )
    kept = [word for word in (viewer.job_columns or "").split(",") if word]
    for names in (asked, kept):
        if shown := tuple(name for name in COLUMNS if name in names):
            return Chosen(shown)
    return Chosen(USUAL)


@page("POST")
def columns_keep(request: HttpRequest) -> HttpResponseBase:
    """Keep what is marked for the person; nothing marked is the usual columns again."""
    viewer = viewer_of(request)
    marked = set(request.POST.getlist("column"))
    names = [name for name in COLUMNS if name in marked]
    pairs = parse_qsl(request.POST.get("query", "")[:4000])
    query = urlencode([pair for pair in pairs if pair[0] not in _NOT_KEPT])

    def act() -> str:
        keep_columns(actor=viewer, columns=",".join(names))
        return "The table shows these columns from now on." if names else "The usual columns again."

    return said_and_back(request, act, f"{reverse('jobs:list')}?{query or 'q='}")
