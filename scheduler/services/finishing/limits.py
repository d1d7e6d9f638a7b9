"""What owners are told of jobs that come near their time limit or highest price, where the jobs ask
for it, and who watches them where they chose it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.models import Attempt, JobWatch, Notification
from scheduler.services.inbox.jobs import about
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.watching import for_watchers
from scheduler.services.timeline.clock import CLOCK
from scheduler.states import (
    AttemptState,
    JobState,
    NoticeKind,
    Wish,
    is_wished,
    span_words,
    whole_span,
)

# Per cent of the time, the highest first: who is found at 90 is not told of 80 as well.
NEAR = (90, 80)


def tell_near_limits(*, now: datetime) -> int:
    """Tell the owners of running jobs that have used 80 or 90 % of their limit, or of the time that
    their highest price pays for if that ends first, and ask for it, each once an attempt; of an
    array once, but where it asks for each task. So are those told who watch and chose it. Returns
    how many; two queries where nobody asks or chose."""
    running = Attempt.objects.filter(
        state=AttemptState.RUNNING,
        started_at__isnull=False,
        job__state=JobState.RUNNING,
        job__ended_at__isnull=True,
    )
    asking = running.filter(job__notify__isnull=False).select_related("job").order_by("pk")
    found = [
        one
        for attempt in asking
        if is_wished(attempt.job.notify, Wish.WARN) and (one := _news(attempt, now))
    ]
    return _tell_new([*found, *_watched(running, now)], now)


def _watched(running: QuerySet[Attempt], now: datetime) -> list[News]:
    """For who watches: of an array once, whatever it asks for."""
    chosen = JobWatch.objects.filter(also_warn=True).order_by()
    of = Q(job__in=chosen.filter(job__isnull=False).values("job"))
    of |= Q(job__job_set__in=chosen.filter(job_set__isnull=False).values("job_set"))
    near = [
        (attempt.job, one)
        for attempt in running.filter(of).select_related("job").order_by("pk")
        if (one := _news(attempt, now, is_watched=True))
    ]
    return for_watchers(near, chosen=Wish.WARN)


def _tell_new(found: Iterable[News], now: datetime) -> int:
    fresh = {(one.person_id, one.key): one for one in found}
    if not fresh:
        return 0
    people, keys = {person for person, _ in fresh}, {key for _, key in fresh}
    # By person as well: there is no index by key alone.
    rows = Notification.objects.filter(person__in=people, key__in=keys)
    told = set(rows.values_list("person_id", "key"))
    news = [one for place, one in fresh.items() if place not in told]
    with transaction.atomic():
        tell(news, now=now)
    return len(news)


def _news(attempt: Attempt, now: datetime, *, is_watched: bool = False) -> News | None:
    job = attempt.job
    if attempt.started_at is None:
        return None
    since, limit_s, what = attempt.started_at, job.time_limit_s, "its time limit"
    paid_until, once = attempt.paid_until, "limit"
    how, words = "Its limit is", "Its page says how to ask for more time."
    if paid_until is not None and paid_until < since + timedelta(seconds=limit_s):
        since, limit_s, once = attempt.assigned_at, attempt.cost_limit_s or 0, "price"
        what = "what its highest price pays for"
        how, words = "In this attempt it pays for", "Its page says how to give it a higher one."
    used_s = CLOCK.age(since, now).total_seconds()
    near = next((one for one in NEAR if used_s * 100 >= one * limit_s), None)
    if near is None or used_s >= limit_s:
        return None
    is_whole = job.job_set_id is not None and (is_watched or not is_wished(job.notify, Wish.ARRAY))
    left = span_words(max(1, limit_s - used_s))
    # Given more time, it may come near its limit anew.
    once = f"{once}{near}:{limit_s}"
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.JOB_ENDING,
        subject=about(job),
        title=f"{job.name} has used {near} % of {what}",
        text=f"{how} {whole_span(limit_s)}; {left} are left. {words}",
        for_others=f"{left} are left.",
        path=f"/jobs/{job.pk}/",
        key=f"{about(job)}:{once}" if is_whole else f"job:{job.pk}:{attempt.number}:{once}",
        asked=True,
    )
