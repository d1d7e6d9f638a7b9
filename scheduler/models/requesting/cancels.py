"""Many jobs of others that one person wants to end, and what a second one said."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models

from scheduler.models.jobs import Job
from scheduler.models.sets import JobSet
from scheduler.states.seconding import CancelOutcome

_PERSON = settings.AUTH_USER_MODEL


class BulkCancel(models.Model):
    """One proposal; only what it names is ended by whoever agrees.

    `about` says what was to be ended as a whole (`set:5`, `person:7`, `jobs:` and a digest), of
    which one proposal waits at a time; `job_set` or `person` is that thing, both empty for jobs
    that were marked. `jobs` had not ended when they were named, `named` of them. `team` is theirs,
    if it is one. After `lapses_at` nobody agrees any more. `said` is why it was refused, `ended`
    how many of the named had not ended when it was agreed to.
    """

    about = models.CharField(max_length=80)
    job_set = models.ForeignKey(
        JobSet, on_delete=models.CASCADE, null=True, related_name="bulk_cancels"
    )
    person = models.ForeignKey(_PERSON, on_delete=models.CASCADE, null=True, related_name="+")
    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, null=True, related_name="+")
    jobs = models.ManyToManyField(Job, related_name="bulk_cancels")
    named = models.PositiveIntegerField()
    reason = models.CharField(max_length=1000)
    proposed_by = models.ForeignKey(_PERSON, on_delete=models.PROTECT, related_name="+")
    proposed_at = models.DateTimeField()
    lapses_at = models.DateTimeField()
    outcome = models.CharField(max_length=16, default=CancelOutcome.WAITING)
    decided_by = models.ForeignKey(_PERSON, on_delete=models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    said = models.CharField(max_length=1000, blank=True)
    ended = models.PositiveIntegerField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["about"],
                condition=models.Q(outcome=CancelOutcome.WAITING),
                name="bulk_cancel_waits_once",
            ),
            models.CheckConstraint(
                condition=models.Q(outcome__in=[str(one) for one in CancelOutcome]),
                name="bulk_cancel_outcome_known",
            ),
            models.CheckConstraint(
                condition=~models.Q(proposed_by=models.F("decided_by"))
                | ~models.Q(outcome=CancelOutcome.AGREED),
                name="bulk_cancel_by_two",
            ),
        ]

    def __str__(self) -> str:
        return f"proposal {self.pk} to cancel {self.what}"

    @property
    def what(self) -> str:
        """What was to be ended, in words."""
        jobs = f"{self.named} job{'' if self.named == 1 else 's'}"
        if self.job_set_id is not None:
            return f"{jobs} of array {self.job_set_id}"
        return f"{jobs} of {self.person.username}" if self.person is not None else jobs

    @property
    def left_out(self) -> int:
        """How many of the named jobs had ended before it was agreed to."""
        return 0 if self.ended is None else self.named - self.ended

    def outcome_at(self, now: datetime) -> CancelOutcome:
        """What became of it, also where nobody has written down that its time is over."""
        if self.outcome == CancelOutcome.WAITING and self.lapses_at <= now:
            return CancelOutcome.LAPSED
        return CancelOutcome(self.outcome)
