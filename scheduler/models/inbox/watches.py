"""Who watches the jobs of others."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.jobs import Job
from scheduler.models.sets import JobSet
from scheduler.states import Wish


class JobWatch(models.Model):
    """One person watches one job, or one array as a whole; the other of the two is None.

    It says nothing about what they may read: that is asked each time they are told. `also_start`,
    `also_warn`: they chose to be told of its start, and near its limits; `start_told`: they were,
    or it had started before.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, related_name="+")
    job_set = models.ForeignKey(JobSet, on_delete=models.CASCADE, null=True, related_name="+")
    since = models.DateTimeField()
    also_start = models.BooleanField(default=False, db_default=False)
    also_warn = models.BooleanField(default=False, db_default=False)
    start_told = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "person"],
                condition=models.Q(job__isnull=False),
                name="job_watched_once",
            ),
            models.UniqueConstraint(
                fields=["job_set", "person"],
                condition=models.Q(job_set__isnull=False),
                name="set_watched_once",
            ),
            models.CheckConstraint(
                condition=models.Q(job__isnull=True) ^ models.Q(job_set__isnull=True),
                name="watch_of_one_thing",
            ),
        ]

    @property
    def also(self) -> list[str]:
        """What they chose beside what everybody who watches is told."""
        chosen = ((self.also_start, Wish.START), (self.also_warn, Wish.WARN))
        return [str(word) for is_chosen, word in chosen if is_chosen]

    def __str__(self) -> str:
        return f"watch {self.pk}"
