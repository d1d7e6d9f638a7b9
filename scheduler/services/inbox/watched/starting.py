"""Who watches a job and chose so is told that it has started.

By a look of its own, each half minute, and not with the start: so starts cost the same whoever
watches. Owners are told with the start itself (`jobs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from scheduler.models import Job, JobWatch
from scheduler.services.inbox.jobs import started_news
from scheduler.services.inbox.telling import tell
from scheduler.services.inbox.watching import for_watchers
from scheduler.states import FINAL_JOB_STATES, Wish

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
    watches = list(rows.select_for_update())
    JobWatch.objects.filter(pk__in=[one.pk for one in watches]).update(start_told=True)
    going = Job.objects.filter(started_at__isnull=False).exclude(state__in=FINAL_JOB_STATES)
    of = Q(pk__in=[one.job_id for one in watches if one.job_id is not None])
    of |= Q(job_set__in=[one.job_set_id for one in watches if one.job_set_id is not None])
    # Of an array one task stands for all.
    jobs = {(one.job_set_id or -one.pk): one for one in going.filter(of).order_by("-pk")}
    news = [(job, started_news(job)) for job in jobs.values()]
    tell(for_watchers(news, chosen=Wish.START), now=now)
    return len(watches)
