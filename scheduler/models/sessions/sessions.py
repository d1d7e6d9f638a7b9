"""Jobs that people talk to while they run, and the passes people come in with."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.jobs import Job
from scheduler.spec.parts import SESSION_APPS


class Session(models.Model):
    """What is beside the job of an interactive session.

    `active_at`: when somebody last typed, looked or kept it, or its GPUs last worked, as far as
    it was noted; its idle clock runs from there, or from the start. None: not since the submit.
    """

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, primary_key=True, related_name="session"
    )
    app = models.CharField(max_length=16)
    idle_stop_s = models.PositiveIntegerField()
    active_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-job_id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(app__in=list(SESSION_APPS)),
                name="session_app_known",
            )
        ]

    def __str__(self) -> str:
        return f"{self.app} session of job {self.job_id}"


class SessionPass(models.Model):
    """One person's way into one session: a ticket for once, then a key that the browser keeps.

    Both are kept as hashes.
    """

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="passes")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="session_passes"
    )
    ticket_hash = models.CharField(max_length=64, unique=True)
    issued_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True)
    key_hash = models.CharField(max_length=64, unique=True, null=True, blank=True)
    key_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"pass {self.pk} into the session of job {self.session_id}"
