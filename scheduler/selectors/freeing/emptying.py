"""When nodes will be empty if they take nothing new: who holds them, and until when.

At the latest is what time limits say. Likely is what the runs of jobs that were alike say, by the
scheduler's own rule (`scheduler/engine/learning.py`), and never later than the limit.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from accounts.models import User
from scheduler.engine.learning import Kind, RunTimes, kind_of_spec
from scheduler.models import Allocation, Attempt, Job, Node, Placement
from scheduler.selectors.calendar.plans import may_see
from scheduler.selectors.freeing.kinds import kind_columns, kind_in
from scheduler.states import (
    LIVE_ATTEMPT_STATES,
    LIVE_JOB_STATES,
    AttemptState,
    EndReason,
    JobState,
)

# The latest so many runs of the projects that hold the nodes tell.
LEARN_FROM = 400
_HELD = ("node", "attempt", "attempt__started_at",
         "attempt__assigned_at", "attempt__extended_to_s")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Holder:
    """A job on a node. `job` is 0 and `name` empty where the viewer may not see it.

    `likely` is None where nothing alike has run for longer. `attempt` and `booking` (ids, None for
    no booking) are there to count and compare, not to be shown.
    """

    job: int
    name: str
    gpus: int
    latest: datetime
    likely: datetime | None
    attempt: int
    booking: int | None


@dataclass(frozen=True, slots=True)
class Emptying:
    """Of one node; the holder that leaves last is the last. Without holders it is empty now."""

    holders: tuple[Holder, ...] = ()

    @property
    def latest(self) -> datetime | None:
        """When the last time limit is over; None if nobody is there."""
        return self.holders[-1].latest if self.holders else None

    @property
    def likely(self) -> datetime | None:
        """When it is probably empty; None if of some job nothing is known."""
        ends = [one.likely for one in self.holders]
        return None if None in ends else max((end for end in ends if end), default=None)

    @property
    def last(self) -> Holder | None:
        """Who holds it longest by the limits."""
        return self.holders[-1] if self.holders else None


def emptying(viewer: User, nodes: Collection[Node], *, now: datetime) -> dict[int, Emptying]:
    """By node, every one of them; two statements and what the viewer's rights take."""
    found: dict[int, list[Holder]] = {node.pk: [] for node in nodes}
    job = "attempt__job"
    fields = (*_HELD, "may_see_", job, f"{job}__name", f"{job}__time_limit_s", f"{job}__booked_in")
    rows = list(
        _placed(nodes)
        .annotate(may_see_=may_see(viewer, f"{job}__project"))
        .values_list(*fields, *kind_columns(f"{job}__"))
        .annotate(gpus=Count("allocations", filter=Q(allocations__released_at__isnull=True)))
        # Who asked for no GPU holds CPUs and memory until its rank is over.
        .filter(Q(gpus__gt=0) | Q(ended_at__isnull=True))
    )
    if not rows:
        return {node: Emptying() for node in found}
    times = RunTimes(_runs({row[len(fields)] for row in rows}))
    for row in rows:
        node, holder = _holder(row, times, now)
        found[node].append(holder)
    return {
        node: Emptying(tuple(sorted(all_, key=attrgetter("latest"))))
        for node, all_ in found.items()
    }


def without_gpus(nodes: Collection[Node]) -> dict[int, int]:
    """By node that has any: how many jobs hold CPUs and memory there, but no GPU; one statement.

    Whoever's they are: a node says of every job that it is there, of whose jobs only the number.
    """
    held = Allocation.objects.filter(placement=OuterRef("pk"), released_at__isnull=True)
    rows = _placed(nodes).filter(~Exists(held), ended_at__isnull=True)
    return dict(rows.values_list("node").annotate(Count("pk")))


def _placed(nodes: Collection[Node]) -> QuerySet[Placement]:
    """What attempts that live have there, in no order."""
    # By the state of jobs: of attempts there are all that ever were. Not by a join, for which
    # SQLite reads every placement there ever was on these nodes.
    live = Attempt.objects.filter(job__state__in=LIVE_JOB_STATES, state__in=LIVE_ATTEMPT_STATES)
    return Placement.objects.filter(
        node__in=nodes, attempt__in=live.order_by().values("pk")
    ).order_by()


def _holder(row: tuple[Any, ...], times: RunTimes, now: datetime) -> tuple[int, Holder]:
    node, attempt, began, assigned, extended_s, is_seen, number, name, limit_s, booking = row[:10]
    *kind, gpus = row[10:]
    since = began or assigned
    latest = max(since + timedelta(seconds=extended_s or limit_s), now)
    ahead_s = times.ahead_s(kind_in(kind), (now - since).total_seconds())
    likely = None
    if math.isfinite(ahead_s):
        likely = min(now + timedelta(seconds=ahead_s), latest)
    holder = Holder(number, name, gpus, latest, likely, attempt, booking)
    if not is_seen:
        holder = replace(holder, job=0, name="")
    return node, holder


def likely_end(job: Job, began: datetime, *, now: datetime) -> datetime | None:
    """When a job that runs since `began` has probably ended, by the same rule; one statement.

    For a job that the viewer may see, by its program, whatever template it is from. None where
    nothing alike has run for longer.
    """
    kind = kind_of_spec(job.project_id, job.nodes, job.gpus_per_node, job.spec)
    times = RunTimes(_runs({job.project_id}))
    ahead_s = times.ahead_s(kind, (now - began).total_seconds())
    if not math.isfinite(ahead_s):
        return None
    latest = began + timedelta(seconds=job.time_limit_s)
    return min(now + timedelta(seconds=ahead_s), max(latest, now))


def _runs(projects: set[int]) -> list[tuple[Kind, float]]:
    """The latest runs of these projects that ended well.

    By their jobs, which an index has by project and end: looked for among attempts from the newest
    back, the few of a small project lie anywhere among all there ever were.
    """
    succeeded = Job.objects.filter(project__in=projects, state=JobState.SUCCEEDED)
    ended = Attempt.objects.filter(
        state=AttemptState.ENDED,
        end_reason=EndReason.COMPLETED,
        started_at__isnull=False,
        ended_at__isnull=False,
        job__in=succeeded.order_by("-ended_at").values("pk")[:LEARN_FROM],
    ).order_by()
    rows = ended.values_list("started_at", "ended_at", *kind_columns("job__"))
    return [
        (kind_in(kind), max(1.0, (over - began).total_seconds())) for began, over, *kind in rows
    ]
