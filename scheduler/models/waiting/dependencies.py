"""What a job waits for: an end of another one, or of all tasks of an array."""

from __future__ import annotations

from django.db import models

from scheduler.models.jobs import Job
from scheduler.models.sets import JobSet
from scheduler.states import DependencyKind


class Dependency(models.Model):
    """`job` waits for an end of `on`, which is always the older of the two: no circle can arise."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dependencies")
    on = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="dependents")
    kind = models.CharField(max_length=16)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "on", "kind"], name="dependency_once"),
            models.CheckConstraint(
                condition=models.Q(job__gt=models.F("on")), name="dependency_on_an_older_job"
            ),
            models.CheckConstraint(
                condition=models.Q(kind__in=[str(kind) for kind in DependencyKind]),
                name="dependency_kind_known",
            ),
        ]


class SetDependency(models.Model):
    """`job` waits for an end of all tasks of `on`, which was whole before it: no circle can arise.

    One row, however many tasks there are.
    """

    # Found by the constraint's own index.
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, db_index=False, related_name="set_dependencies"
    )
    on = models.ForeignKey(JobSet, on_delete=models.PROTECT, related_name="dependents")
    kind = models.CharField(max_length=16)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "on", "kind"], name="set_dependency_once"),
            models.CheckConstraint(
                condition=models.Q(kind__in=[str(kind) for kind in DependencyKind]),
                name="set_dependency_kind_known",
            ),
        ]
