"""Bookings for a viewer: one's own in full, of others when and how much."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.errors import NotFound
from accounts.models import Project, Team, User
from accounts.permissions import (
    can,
    is_operator,
    projects_visible_to,
    team_ids_for,
    teams_visible_to,
)
from accounts.statements import read_together
from scheduler.models import Booking, Job, Node, Pool
from scheduler.states import OPEN_JOB_STATES, WAITING_JOB_STATES, BookingState

# How long those that are over are still shown.
LATELY = timedelta(days=7)
# Waiting jobs for which their booking has become too small; a submit refuses them.
_TOO_LARGE = Q(state__in=WAITING_JOB_STATES) & (
    Q(nodes_min__gt=F("booked_in__nodes"))
    | Q(booked_in__gpus_per_node__gt=0)
    & (Q(gpus_per_node__gt=F("booked_in__gpus_per_node")) | Q(exclusive=True))
)


@dataclass(frozen=True, slots=True)
class BookingView:
    """A booking; `is_shown`: whose it is and what for is the viewer's business, too.

    `jobs`: how many wait or run in it; `too_large`: how many of them ask for more than it has by
    now, and never start in it.
    """

    booking: Booking
    state: BookingState
    node_names: tuple[str, ...]
    is_shown: bool
    may_change: bool
    jobs: int
    too_large: int


def visible_bookings(viewer: User) -> QuerySet[Booking]:
    """Those of one's projects and teams; operators see all."""
    bookings = Booking.objects.select_related("pool", "project__team", "team", "created_by")
    if is_operator(viewer):
        return bookings
    projects, teams = projects_visible_to(viewer), teams_visible_to(viewer)
    return bookings.filter(
        Q(project__in=projects.values("pk"))
        | Q(team__in=teams.values("pk"))
        | Q(team__in=projects.values("team"))
    )


def get_visible_booking(viewer: User, pk: int) -> Booking:
    """Raises NotFound, for a foreign one as well."""
    found = visible_bookings(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such booking for you.")
    return found


def find_open_booking(viewer: User, named: str, *, now: datetime) -> Booking | None:
    """By number or by name, if it is planned or active and the viewer's business."""
    bookings = visible_bookings(viewer).filter(until_at__gt=now, closed_as="")
    if named.isascii() and named.isdigit():
        return bookings.filter(pk=int(named)).first() if len(named) < 19 else None
    return bookings.filter(name=named).order_by("from_at").first()


def booking_views(viewer: User, *, now: datetime) -> list[BookingView]:
    """All that are planned or active; two queries at most.

    Everybody who is signed in sees when how much of a pool is booked.
    """
    return views_of_rows(viewer, list(booking_rows(viewer, now=now)), now=now)


def booking_rows(viewer: User, *, now: datetime, with_past: bool = False) -> QuerySet[Booking]:
    """Of `booking_views`, and one's own of the last days if asked."""
    is_open = Q(until_at__gt=now, closed_as="")
    own = visible_bookings(viewer).order_by()
    lately = Q(pk__in=own.values("pk"), until_at__gt=now - LATELY) if with_past else Q(pk__in=[])
    inside = Job.objects.filter(booked_in=OuterRef("pk"), state__in=OPEN_JOB_STATES)
    jobs, large = (_counted(each) for each in (inside, inside.filter(_TOO_LARGE)))
    return (
        Booking.objects.filter(is_open | lately)
        .select_related("pool", "project__team", "team", "created_by")
        .annotate(
            jobs_=Coalesce(jobs, 0),
            large_=Coalesce(large, 0),
            is_own_=Exists(own.filter(pk=OuterRef("pk"))),
        )
    )


def _counted(inside: QuerySet[Job]) -> Subquery:
    counted = inside.order_by().values("booked_in").annotate(count_=Count("pk"))
    return Subquery(counted.values("count_"))


def views_of_rows(
    viewer: User,
    found: Sequence[Any],
    *,
    now: datetime,
    names: Mapping[int, str] | None = None,
) -> list[BookingView]:
    """Rows of `booking_rows` as the viewer may see them."""
    return _views(
        viewer,
        found,
        now=now,
        mine={booking.pk for booking in found if booking.is_own_},
        jobs={booking.pk: (booking.jobs_, booking.large_) for booking in found},
        known=names,
    )


def views_of(viewer: User, bookings: list[Booking], *, now: datetime) -> list[BookingView]:
    """These as their owners may see them."""
    inside = Job.objects.filter(booked_in__in=bookings, state__in=OPEN_JOB_STATES)
    counts = (
        inside.order_by()
        .values_list("booked_in_id")
        .annotate(jobs_=Count("pk"), large_=Count("pk", filter=_TOO_LARGE))
    )
    jobs = {pk: (count, large) for pk, count, large in counts}
    mine = {booking.pk for booking in bookings}
    return _views(viewer, bookings, now=now, mine=mine, jobs=jobs)


def _views(
    viewer: User,
    bookings: Sequence[Booking],
    *,
    now: datetime,
    mine: Collection[int],
    jobs: Mapping[int, tuple[int, int]],
    known: Mapping[int, str] | None = None,
) -> list[BookingView]:
    names = names_of((pk for booking in bookings for pk in booking.node_ids), known)
    operates = can(viewer, "operate", None)
    return [
        BookingView(
            booking=booking,
            state=booking.state_at(now),
            node_names=tuple(sorted(names[pk] for pk in booking.node_ids if pk in names)),
            is_shown=booking.pk in mine,
            may_change=operates or may_book(viewer, booking.project or booking.team),
            jobs=count,
            too_large=large,
        )
        for booking in bookings
        for count, large in [jobs.get(booking.pk, (0, 0))]
    ]


def names_of(nodes: Iterable[int], known: Mapping[int, str] | None = None) -> Mapping[int, str]:
    """Names of nodes by id, also of retired ones; one query, none where all are `known`."""
    known, wanted = known or {}, set(nodes)
    if wanted <= known.keys():
        return known
    return dict(Node.objects.filter(pk__in=wanted).values_list("pk", "name"))


def may_book(viewer: User, owner: Project | Team | None) -> bool:
    """Whether the viewer books for this project or team."""
    if owner is None:
        return False
    action = "manage_project" if isinstance(owner, Project) else "manage_team"
    return can(viewer, action, owner) or can(viewer, "operate", None)


def bookable_owners(viewer: User) -> tuple[list[Project | Team], list[Pool]]:
    """For whom the viewer may book, teams first, then projects; and where, nowhere for nobody. One
    query."""
    if can(viewer, "operate", None):
        teams, projects = Team.objects.all(), Project.objects.select_related("team")
    else:
        teams = teams_visible_to(viewer, "manage_team")
        projects = projects_visible_to(viewer, "manage_project")
    live = projects.filter(is_archived=False).order_by("team__slug", "slug")
    pools = Pool.objects.order_by("name")
    found_teams, found_projects, found_pools = read_together(teams.order_by("slug"), live, pools)
    owners = [*found_teams, *found_projects]
    return owners, found_pools if owners else []


def may_book_any(viewer: User) -> bool:
    """Whether there is anybody for whom the viewer may book; asks for nothing but rights."""
    # Whoever manages a project leads its team.
    return can(viewer, "operate", None) or team_ids_for(viewer, "manage_team") != frozenset()
