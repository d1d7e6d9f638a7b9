"""Who changed what, when, and by which request: rows that are only ever added.

On PostgreSQL a trigger refuses what would change or delete one. References carry no constraint and
names are kept as they were, so that nothing that happens to a person or team later touches a row.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from accounts.models.teams import Team


def _reference(to: Any) -> Any:
    """A reference that outlives what it points at: no constraint, no cascade, no index."""
    return models.ForeignKey(
        to,
        on_delete=models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )


class AuditEvent(models.Model):
    """One change. `actor` is None for the system itself; `before` and `after` are canonical JSON.

    `area` says whose concern it is beside its team's: the cluster's, money's, people's.
    """

    at = models.DateTimeField()
    actor = _reference(settings.AUTH_USER_MODEL)
    actor_name = models.CharField(max_length=150, blank=True)
    on_behalf_of = _reference(settings.AUTH_USER_MODEL)
    on_behalf_of_name = models.CharField(max_length=150, blank=True)
    action = models.CharField(max_length=64)
    area = models.CharField(max_length=16, blank=True)
    team = _reference(Team)
    subject_kind = models.CharField(max_length=48)
    subject_id = models.CharField(max_length=64, blank=True)
    subject_label = models.CharField(max_length=255, blank=True)
    request_id = models.CharField(max_length=96, blank=True)
    ip = models.CharField(max_length=45, blank=True)
    # What the program said it was; null in rows of before this was kept.
    user_agent = models.CharField(max_length=200, null=True)
    before = models.TextField(blank=True)
    after = models.TextField(blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["at", "id"], name="audit_by_time"),
            models.Index(fields=["actor_name", "at", "id"], name="audit_by_actor"),
            models.Index(fields=["action", "at", "id"], name="audit_by_action"),
            models.Index(
                fields=["subject_kind", "subject_id", "at", "id"], name="audit_by_subject"
            ),
            models.Index(fields=["team", "at", "id"], name="audit_by_team"),
            models.Index(fields=["area", "at", "id"], name="audit_by_area"),
        ]

    def __str__(self) -> str:
        return f"{self.action} of {self.subject_label} by {self.actor_name or 'the system'}"


class AuditSeal(models.Model):
    """A batch of events, sealed behind the one before; append-only like they are.

    Covers every event with `from_id` <= id <= `until_id`. `digests`: for each event, in the order
    of ids, eight bytes of id and the SHA-256 of its canonical form, so that a check can name it.
    """

    number = models.PositiveBigIntegerField(unique=True)
    from_id = models.BigIntegerField()
    until_id = models.BigIntegerField(unique=True)
    count = models.PositiveIntegerField()
    sealed_at = models.DateTimeField()
    digests = models.BinaryField()
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"seal {self.number}: events {self.from_id} to {self.until_id}"


class AuditHead(models.Model):
    """Where the chain of seals ends; the one row is locked by whoever seals.

    `mark_*`: up to which event the next seal may reach once every transaction older than `mark_tx`
    has ended (see `accounts/services/sealing.py`).
    """

    number = models.PositiveBigIntegerField(default=0)
    hash = models.CharField(max_length=64)
    until_id = models.BigIntegerField(default=0)
    mark_id = models.BigIntegerField(default=0)
    mark_tx = models.BigIntegerField(default=0)
    mark_at = models.DateTimeField(null=True)
