"""Who watches a job and chose so is told that it has started.

By a look of its own, each half minute, and not with the start: so starts cost the same whoever
watches. Owners are told with the start itself (`jobs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, Min, OuterRef, Q

from scheduler.models import Job, JobWatch
from scheduler.services.inbox.jobs import started_news
from scheduler.services.inbox.telling import tell
from scheduler.services.inbox.watching import for_watchers
from scheduler.states import FINAL_JOB_STATES, OPEN_JOB_STATES, Wish

_BATCH = 500


def tell_watchers_of_starts(*, now: datetime) -> int:
    """Tell those who chose it of the jobs and arrays that have started since the last look, each
    once; of what is over by then its end was told. Returns of how many watches. One statement where
    there is nothing to tell, and a fixed number otherwise."""
    started = Job.objects.filter(started_at__isnull=False).order_by()
    its_own = Q(job__started_at__isnull=False)
    of_set = Exists(started.filter(job_set=OuterRef("job_set")))
    due = JobWatch.objects.filter(its_own | of_set, also_start=True, start_told=False)
    found = list(due.order_by("pk").values_list("pk", flat=True)[:_BATCH])
    return _tell(found, now) if found else 0


@transaction.atomic
def _tell(numbers: Sequence[int], now: datetime) -> int:
    rows = JobWatch.objects.filter(pk__in=numbers, start_told=False)
    watches = list(rows.order_by("pk").select_for_update())
    JobWatch.objects.filter(pk__in=[one.pk for one in watches]).update(start_told=True)
    news = [(job, started_news(job)) for job in _started_of(watches)]
    # Not who began to watch after the start: for them there is none to come.
    due = {
        (one.person_id, f"set:{one.job_set_id}" if one.job_id is None else f"job:{one.job_id}")
        for one in watches
    }
    told = for_watchers(news, chosen=Wish.START)
    tell((one for one in told if (one.person_id, one.subject) in due), now=now)
    return len(watches)


def _started_of(watches: Sequence[JobWatch]) -> list[Job]:
    """The watched jobs that have started and are not over; of an array the first task that has,
    which may be over while others are still to come."""
    going = Job.objects.filter(state__in=OPEN_JOB_STATES).order_by()
    started = Job.objects.filter(started_at__isnull=False).order_by()
    sets = [one.job_set_id for one in watches if one.job_set_id is not None]
    firsts = started.filter(job_set__in=sets).values("job_set").annotate(first_=Min("pk"))
    alone = Q(pk__in=[one.job_id for one in watches if one.job_id is not None])
    alone &= ~Q(state__in=FINAL_JOB_STATES)
    of_sets = Q(pk__in=firsts.values("first_"))
    of_sets &= Q(Exists(going.filter(job_set=OuterRef("job_set"))))
    return list(started.filter(alone | of_sets).order_by("pk"))
