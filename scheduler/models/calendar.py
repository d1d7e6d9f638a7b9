"""What is planned for nodes: maintenance, and bookings by teams."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import models

from scheduler.models.cluster import Pool
from scheduler.states import BookingState


class MaintenanceWindow(models.Model):
    """From when until when nodes of a pool take no work; `nodes` are their ids, none means all.

    `drained`: ids of those that it took out of service itself when it began, at `begun_at`; they
    went back at `ended_at`.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="windows")
    nodes = models.JSONField(default=list, blank=True)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField(db_index=True)
    reason = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)
    drained = models.JSONField(default=list, blank=True)
    begun_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["from_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(from_at__lt=models.F("until_at")), name="window_ends_later"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.from_at} to {self.until_at}"


class Booking(models.Model):
    """Nodes of a pool that are for the jobs of one project, or of one team, alone for a time.

    `gpus_per_node` are booked of each of `nodes`, 0 for the whole of it; `gpu_model` empty takes
    any. `node_ids`: where, as the scheduler has it now. `closed_as` says how it ended before its
    time, empty for not at all; what time alone brings about is not written: see `state_at`.
    `cut_short`: who set its end earlier with jobs of others inside, and why (`who`, `who_id`,
    `because`); empty where nobody did, or had to say.
    """

    name = models.CharField(max_length=63, blank=True)
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, null=True, blank=True, related_name="bookings"
    )
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.CASCADE, null=True, blank=True, related_name="bookings"
    )
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="bookings")
    gpu_model = models.CharField(max_length=96, blank=True)
    nodes = models.PositiveIntegerField()
    gpus_per_node = models.PositiveIntegerField(default=0)
    from_at = models.DateTimeField()
    until_at = models.DateTimeField(db_index=True)
    note = models.CharField(max_length=200, blank=True)
    node_ids = models.JSONField(default=list, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_as = models.CharField(max_length=16, blank=True)
    cut_short = models.JSONField(default=dict, blank=True)
    # Maintenance for which no other nodes were free; its owner was told.
    hurt_by = models.ForeignKey(
        MaintenanceWindow, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ["from_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(from_at__lt=models.F("until_at")), name="booking_ends_later"
            ),
            models.CheckConstraint(condition=models.Q(nodes__gte=1), name="booking_has_nodes"),
            models.CheckConstraint(
                condition=models.Q(project__isnull=True, team__isnull=False)
                | models.Q(project__isnull=False, team__isnull=True),
                name="booking_has_one_owner",
            ),
        ]

    def __str__(self) -> str:
        return f"booking {self.pk}"

    @property
    def owner_path(self) -> str:
        """The team, or team/project."""
        return self.project.path if self.project else self.team.slug if self.team else ""

    def state_at(self, now: datetime) -> BookingState:
        """What it is at a moment."""
        if self.closed_as:
            return BookingState(self.closed_as)
        if self.until_at <= now:
            return BookingState.ENDED
        return BookingState.ACTIVE if self.from_at <= now else BookingState.PLANNED


class Headroom(models.Model):
    """GPUs of a pool that production can always have; `gpu_model` empty means of any model."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="headroom")
    gpu_model = models.CharField(max_length=96, blank=True)
    gpus = models.PositiveIntegerField()
    set_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    set_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["pool__name", "gpu_model"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "gpu_model"], name="headroom_once"),
            models.CheckConstraint(condition=models.Q(gpus__gte=1), name="headroom_is_some"),
        ]

    def __str__(self) -> str:
        return f"{self.gpus} GPUs of pool {self.pool_id}"
