"""How many lines of ended attempts' logs say warn: which are to be counted, and what came of it.

Who has the search reads them (`portal.terminal.counting`), so that a list says what the page of the
log finds. An attempt is counted once nothing can come of its logs any more; one whose
node is away before, by what is there, and once more then. What was pruned before it was counted, or
could not be read for a day, stays without a count.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from scheduler.models import Attempt, Placement
from scheduler.services.history import tell_of_job
from scheduler.services.timeline.clock import CLOCK
from scheduler.services.timeline.late_logs import may_grow

# So many lines are counted; one more stands for all that are beyond.
MOST = 10_000
MORE = MOST + 1
# For so long the rest of a log is waited for before what is there is counted.
_PATIENCE = timedelta(minutes=10)
# For so long an unreadable log is tried again.
_GIVEN_UP = timedelta(days=1)
_SETTLED_AT_ONCE, _ROUNDS = 500, 10
_BATCH = 100


def settle_unread(*, now: datetime) -> int:
    """Settle what needs no reading: logs that stay empty say nothing, and of those that are pruned
    nothing can be said. Returns how many attempts, of each at most five thousand, by a statement
    for five hundred."""
    due = _uncounted().filter(_closed(now))
    silent = due.filter(~_printed(), ~_pruned())
    count = 0
    for rows, found in ((silent, {"warnings": 0}), (due.filter(_pruned()), {})):
        some = rows.order_by("ended_at", "pk").values("pk")[:_SETTLED_AT_ONCE]
        settled = {"warnings_at": now, "warnings_from": None, **found}
        for _ in range(_ROUNDS):
            done = Attempt.objects.filter(pk__in=some).update(**settled)
            count += done
            if done < _SETTLED_AT_ONCE:
                break
    return count


def attempts_to_count(*, now: datetime) -> Iterator[Attempt]:
    """Those that are due, the longest ended first, with their ranks that have a log; each once."""
    ranks = Placement.objects.filter(log_size__gt=0).order_by("rank")
    due = (
        _uncounted()
        .annotate(closed_=_closed(now))
        .filter(
            Q(closed_=True)
            | Q(warnings__isnull=True) & CLOCK.older_than("ended_at", _PATIENCE, now=now),
            # The rest of those that are empty is settled many at a time.
            _printed() | Q(closed_=False),
            ~_pruned(),
        )
        .order_by("ended_at", "pk")
        .select_related("job__pool")
        .only(
            *("ended_at", "state", "warnings", "warnings_from"),
            *("job__project_id", "job__pool__name"),
        )
        .prefetch_related(Prefetch("placements", queryset=ranks))
    )
    after = Q()
    while batch := list(due.filter(after)[:_BATCH]):
        yield from batch
        at, pk = batch[-1].ended_at, batch[-1].pk
        after = Q(ended_at__gt=at) | Q(ended_at=at, pk__gt=pk)


def keep_count(attempt: Attempt, count: int, *, now: datetime) -> None:
    """What was counted of one of `attempts_to_count`. Of logs that were pruned meanwhile it may be
    too little, and is not kept. Open pages that show the job are told of a count that is news."""
    settled = now if getattr(attempt, "closed_", False) else None
    warnings, known = min(count, MORE), attempt.warnings or 0
    kept = _still(attempt).update(warnings=warnings, warnings_at=settled, warnings_from=None)
    if kept and warnings != known:
        tell_of_job(attempt.job)


def keep_place(attempt: Attempt, rank: int, line: int, count: int) -> None:
    """Where a count that takes longer goes on the next time, and what was found until there."""
    _still(attempt).update(warnings_from=[rank, line, count])


def note_unreadable(attempt: Attempt, *, now: datetime) -> None:
    """Its logs cannot be read now: it is tried again for a day after its end, then given up."""
    old = CLOCK.older_than("ended_at", _GIVEN_UP, now=now)
    _still(attempt).filter(old).update(warnings_at=now, warnings_from=None)


def _uncounted() -> QuerySet[Attempt]:
    return Attempt.objects.filter(ended_at__isnull=False, warnings_at__isnull=True)


def _closed(now: datetime) -> Any:
    """Whether nothing can come of an attempt's logs any more."""
    return ~Exists(_ranks().filter(may_grow(now)))


def _ranks() -> QuerySet[Placement]:
    return Placement.objects.filter(attempt=OuterRef("pk")).order_by()


def _printed() -> Exists:
    return Exists(_ranks().filter(log_size__gt=0))


def _pruned() -> Exists:
    return Exists(_ranks().filter(log_pruned_at__isnull=False))


def _still(attempt: Attempt) -> QuerySet[Attempt]:
    return Attempt.objects.filter(~_pruned(), pk=attempt.pk, warnings_at__isnull=True)
