"""Keeping query strings under a name."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import Team, User
from accounts.services.audit import record
from scheduler.models import SavedView
from scheduler.services.errors import Conflict, Invalid, NotFound

# The tables that can be looked at in one's own way, and those of them that open so by themselves.
TABLES = ("jobs", "audit", "reports")
OPENING = ("jobs", "audit")
MOST_VIEWS = 20
MAX_QUERY = 1000


@transaction.atomic
def save_view(
    *,
    actor: User,
    table: str,
    name: str,
    query: str,
    team: Team | None = None,
    now: datetime | None = None,
) -> SavedView:
    """Keep a query string; one of that name is replaced.

    Raises Invalid for a table, name or query that cannot be, Conflict when there are too many,
    NotFound for a team that the actor is not in.
    """
    if table not in TABLES:
        raise Invalid(f"Choose from {', '.join(TABLES)}.", field="table")
    name = _named(name)
    if len(query) > MAX_QUERY or any(ord(char) < 32 for char in query):
        raise Invalid(f"A query has up to {MAX_QUERY} characters, all printable.", field="query")
    if team is not None and not team.memberships.filter(user=actor).exists():
        raise NotFound("You are in no such team.")
    mine = SavedView.objects.filter(person=actor, table=table)
    if not mine.filter(name=name).exists() and mine.count() >= MOST_VIEWS:
        raise Conflict(f"{MOST_VIEWS} views are kept of a table; delete one first.")
    view, _ = SavedView.objects.update_or_create(
        person=actor,
        table=table,
        name=name,
        defaults={"query": query, "team": team},
        create_defaults={"query": query, "team": team, "created_at": now or timezone.now()},
    )
    if team is not None:
        record(actor, "view.share", view, after={"name": name, "query": query}, now=now)
    return view


@transaction.atomic
def rename_view(*, actor: User, view: SavedView, name: str) -> SavedView:
    """Another name; raises Invalid, Conflict for one that is taken, NotFound for another's."""
    mine = _own(actor, view)
    mine.name = _named(name)
    try:
        with transaction.atomic():
            mine.save(update_fields=["name"])
    except IntegrityError:
        raise Conflict(f"A view named {mine.name} is there already.") from None
    return mine


@transaction.atomic
def set_default(*, actor: User, view: SavedView, is_default: bool = True) -> SavedView:
    """Open the table with this view from now on, or with all of it again; Invalid for a table
    that opens by itself with none.
    """
    mine = _own(actor, view)
    if mine.table not in OPENING:
        raise Invalid(f"Only {' and '.join(OPENING)} open with a view.", field="table")
    SavedView.objects.filter(person=actor, table=mine.table).update(is_default=False)
    SavedView.objects.filter(pk=mine.pk).update(is_default=is_default)
    mine.is_default = is_default
    return mine


@transaction.atomic
def delete_view(*, actor: User, view: SavedView) -> None:
    """Forget it, also for those it was shared with."""
    _own(actor, view).delete()


def _own(actor: User, view: SavedView) -> SavedView:
    found = SavedView.objects.select_for_update().filter(pk=view.pk, person=actor).first()
    if found is None:
        raise NotFound("There is no such view of yours.")
    return found


def _named(name: str) -> str:
    name = " ".join(name.split())
    if not 0 < len(name) <= 60 or not name.isprintable():
        raise Invalid("A name has 1 to 60 printable characters.", field="name")
    return name
