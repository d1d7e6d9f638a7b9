"""Proposals to cancel many jobs, for a viewer: who made them, and who might agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.db.models.functions import Now

from accounts.errors import NotFound
from accounts.held import grants_of
from accounts.models import User
from accounts.permissions import can
from scheduler.models import BulkCancel, Job
from scheduler.selectors.jobs import MAX_PK, visible_jobs
from scheduler.selectors.requesting.parties import ends_all, may_end, parties_named
from scheduler.states import LIVE_JOB_STATES, OPEN_JOB_STATES
from scheduler.states.seconding import CancelOutcome

LISTED_FOR = timedelta(days=30)
_MOST = 500


@dataclass(frozen=True, slots=True)
class SeenCancel:
    """A proposal as a viewer finds it; `actions`: agree, refuse or withdraw."""

    proposal: BulkCancel
    outcome: CancelOutcome
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """What an agreement would end: `jobs` of so many `people`, of them those `at_work`, which hold
    so many `gpus`. `owner`: the user name of one of these people, empty where there are none."""

    jobs: int
    people: int
    owner: str
    at_work: int
    gpus: int

    @property
    def waiting(self) -> int:
        return self.jobs - self.at_work


def seen_cancels(viewer: User, *, now: datetime, only_waiting: bool = False) -> list[SeenCancel]:
    """Those that wait, and what became of those of the last 30 days, the newest first; at most
    four statements, one where there are none."""
    waiting = Q(outcome=CancelOutcome.WAITING, lapses_at__gt=now)
    which = waiting if only_waiting else waiting | Q(proposed_at__gt=now - LISTED_FOR)
    return _seen(viewer, list(_rows(viewer).filter(which)[:_MOST]), now)


def cancels_to_answer(viewer: User) -> QuerySet[BulkCancel]:
    """Those that wait now and that the viewer may agree to or refuse, as a query that says nothing
    of a moment. Not those of people for whom the viewer acts, who have spoken already."""
    rows = BulkCancel.objects.filter(outcome=CancelOutcome.WAITING, lapses_at__gt=Now())
    if viewer.is_service:
        return rows.none()
    rows = rows.exclude(proposed_by=viewer)
    if can(viewer, "operate", None):
        return rows
    givers = [each.giver.pk for each in grants_of(viewer).acts_for]
    return rows.exclude(proposed_by__in=givers).filter(ends_all(viewer))


def get_visible_cancel(viewer: User, pk: int, *, now: datetime) -> SeenCancel:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = list(_rows(viewer).filter(pk=pk)) if 0 < pk <= MAX_PK else []
    seen = _seen(viewer, found, now)
    if not seen:
        raise NotFound("There is no such proposal for you.")
    return seen[0]


def cancel_of_person(viewer: User, person: User, *, now: datetime) -> SeenCancel | None:
    """What waits about the jobs of somebody, if the viewer may see it."""
    rows = _rows(viewer).filter(person=person, outcome=CancelOutcome.WAITING, lapses_at__gt=now)
    return next(iter(_seen(viewer, list(rows[:1]), now)), None)


def jobs_named(viewer: User, proposal: BulkCancel) -> QuerySet[Job]:
    """The named jobs that the viewer may see, those that have not ended first."""
    first = F("ended_at").asc(nulls_first=True)
    return visible_jobs(viewer).filter(bulk_cancels=proposal).order_by(first, "pk")


def left_of(viewer: User, proposal: BulkCancel) -> Left:
    """Of the named jobs those that have not ended; one statement."""
    at_work = Q(state__in=LIVE_JOB_STATES)
    found = (
        jobs_named(viewer, proposal)
        .filter(state__in=OPEN_JOB_STATES)
        .order_by()
        .aggregate(
            jobs=Count("pk"),
            people=Count("owner", distinct=True),
            owner=Max("owner__username", default=""),
            at_work=Count("pk", filter=at_work),
            gpus=Sum(F("nodes") * F("gpus_per_node"), filter=at_work, default=0),
        )
    )
    return Left(**found)


def _rows(viewer: User) -> QuerySet[BulkCancel]:
    rows = BulkCancel.objects.select_related("proposed_by", "decided_by", "person", "job_set")
    return rows if viewer.is_authenticated else rows.none()


def _seen(viewer: User, rows: Sequence[BulkCancel], now: datetime) -> list[SeenCancel]:
    """Those of `rows` that the viewer may see; whoever runs the cluster sees all."""
    foreign = [] if can(viewer, "operate", None) else rows
    parties = parties_named(foreign)
    found = []
    for one in rows:
        is_mine, theirs = one.proposed_by_id == viewer.pk, parties.get(one.pk, frozenset())
        if not is_mine and not may_end(viewer, theirs):
            continue
        outcome = one.outcome_at(now)
        actions: tuple[str, ...] = ()
        if outcome is CancelOutcome.WAITING and is_mine:
            actions = ("withdraw",)
        elif (
            outcome is CancelOutcome.WAITING
            and not viewer.is_service
            and may_end(viewer, theirs, besides=one.proposed_by_id)
        ):
            actions = ("agree", "refuse")
        found.append(SeenCancel(one, outcome, actions))
    return found
