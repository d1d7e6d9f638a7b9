"""What people asked for."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import models
from django.utils import timezone

from scheduler.models.calendar import Booking
from scheduler.models.cluster import Pool
from scheduler.models.queues import Queue
from scheduler.models.sets import JobSet
from scheduler.money import from_steps
from scheduler.states import PAUSES, FinishPolicy, JobState, WaitReason

# Among the facts of a hold by hand: the job was paused before, which is over.
AFTER_PAUSE = "after_pause"
_OF_PAUSES = (WaitReason.PAUSED, WaitReason.HELD_BY_ADMIN)
# In words of the database what `Job.end_shown` looks at.
PAUSE_IS_OVER = models.Q(state=JobState.HELD, end_reason__in=PAUSES) & (
    ~models.Q(wait_reason__in=_OF_PAUSES) | models.Q(wait_facts__has_key=AFTER_PAUSE)
)


class Job(models.Model):
    """What a person asked for; `spec` changes after the submit only where its owner lets the
    waiting job ask for other GPUs, nodes or another pool.

    The columns beside `spec` repeat what the engine needs, so that a cycle reads numbers, not
    documents. `nodes` are the most it takes, `nodes_min` the fewest it runs on; `gpu_milli` is
    asked of each device, 1000 being a whole one. `is_shaped`: it asks for more than numbers of
    nodes, GPUs, cpus and memory, so that a cycle reads the other columns of few jobs only.
    `queued_at` is since when it waits its turn: the submit, or the later moment at which begin time
    and dependencies let it go. It survives retries and preemption: waiting never lowers a job's
    place. `yielded_from`: what it was before its owner let another of their jobs go first, which
    puts it off; empty for who never did. `version` counts moves, for optimistic locking by clients.
    `finish_by`: the moment by which it has to be finished; `start_by`: the latest one to start for
    that, of a job that is cancelled when late; `told_late`: whether its owner was told that the
    moment is over, False for that it is expected to be late, None for nothing.
    `max_cost_steps`: its highest price, in the steps of `scheduler.money`; None for none.
    `is_singleton`: waits for the owner's earlier jobs of the same name. `group_name`: of an
    owner's jobs under one name in a project the newest cancels the others; None for none.
    `pool_choice`: the names of the pools it may start in, the most wanted first, its own `pool`
    among them; None for that alone.
    `booking` is what was asked for, a name or number, and `booked_in` the booking it runs inside.
    """

    project = models.ForeignKey(
        "accounts.Project", on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs", db_index=False
    )
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="jobs")
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="jobs")
    cloned_from = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="clones"
    )
    job_set = models.ForeignKey(
        JobSet, on_delete=models.PROTECT, null=True, blank=True, related_name="tasks"
    )
    array_index = models.PositiveIntegerField(null=True, blank=True)
    name = models.CharField(max_length=128)
    spec = models.JSONField()
    tier = models.SmallIntegerField()
    nodes = models.PositiveIntegerField()
    nodes_min = models.PositiveIntegerField(default=1)
    node_sizes = models.JSONField(default=list, blank=True)
    gpus_per_node = models.PositiveIntegerField()
    gpu_milli = models.PositiveSmallIntegerField(default=1000)
    gpu_memory_mib = models.PositiveBigIntegerField(default=0)
    gpu_model = models.CharField(max_length=96, blank=True)
    gpu_models = models.JSONField(default=list, blank=True)
    fallback_after_s = models.PositiveIntegerField(default=0)
    isolation = models.CharField(max_length=16, default="any")
    share_cards = models.BooleanField(default=False)
    exclusive = models.BooleanField(default=False)
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    scratch_mib = models.PositiveBigIntegerField(default=0)
    licences = models.JSONField(default=dict, blank=True)
    constraints = models.JSONField(default=list, blank=True)
    exclude_nodes = models.JSONField(default=list, blank=True)
    # Names of data sets; null for none.
    datasets = models.JSONField(null=True, blank=True)
    pool_choice = models.JSONField(null=True, blank=True)
    topology_level = models.CharField(max_length=8, blank=True)
    topology_mode = models.CharField(max_length=16, blank=True)
    is_shaped = models.BooleanField(default=False)
    time_limit_s = models.PositiveIntegerField()
    max_cost_steps = models.PositiveBigIntegerField(null=True, blank=True)
    retries = models.PositiveSmallIntegerField(default=0)
    # As its spec says them; null for none.
    retry_rules = models.JSONField(null=True, blank=True)
    # What its owner is told of, as its spec says; null: as they chose.
    notify = models.JSONField(null=True, blank=True)
    preemptible = models.BooleanField(default=True)
    min_runtime_s = models.PositiveIntegerField(default=0)
    booking = models.CharField(max_length=63, blank=True)
    booked_in = models.ForeignKey(
        Booking,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="jobs",
    )
    # As its spec wants it; later, the end of the pause before a retry.
    begin_at = models.DateTimeField(null=True, blank=True)
    finish_by = models.DateTimeField(null=True, blank=True)
    start_by = models.DateTimeField(null=True, blank=True)
    told_late = models.BooleanField(null=True, blank=True)
    is_singleton = models.BooleanField(default=False)
    group_name = models.CharField(max_length=64, null=True, blank=True)

    state = models.CharField(max_length=16, default=JobState.QUEUED)
    version = models.PositiveIntegerField(default=1)
    wait_reason = models.CharField(max_length=32, blank=True, default=WaitReason.EVALUATING)
    wait_facts = models.JSONField(default=dict, blank=True)
    wait_checked_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=32, blank=True)
    end_facts = models.JSONField(default=dict, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    user_retries_used = models.PositiveSmallIntegerField(default=0)
    free_retries_used = models.PositiveSmallIntegerField(default=0)
    submitted_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField()
    yielded_from = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # For whom `get_visible_job` has found this very object; no column.
    seen_by: object = None

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["state", "-id"], name="job_by_state"),
            models.Index(fields=["project", "-id"], name="job_by_project"),
            models.Index(fields=["owner", "-id"], name="job_by_owner"),
            models.Index(fields=["owner", "state", "-ended_at"], name="job_by_owner_state"),
            models.Index(fields=["project", "state", "-ended_at"], name="job_by_project_state"),
            models.Index(
                fields=["pool", "-tier", "queued_at", "id"],
                condition=models.Q(state=JobState.QUEUED),
                name="job_queue_order",
            ),
            # The last that ran in a pool; without it a pool of few jobs reads those of all others.
            models.Index(
                fields=["pool", "-ended_at"],
                condition=models.Q(ended_at__isnull=False),
                name="job_by_pool_ended",
            ),
            # The table of jobs in these orders, those without a value as well.
            models.Index(fields=["started_at", "id"], name="job_by_start"),
            models.Index(fields=["ended_at", "id"], name="job_by_end"),
            models.Index(
                models.F("nodes") * models.F("gpus_per_node"), models.F("id"), name="job_by_gpus"
            ),
            models.Index(
                fields=["state"], condition=models.Q(is_shaped=True), name="job_shaped_by_state"
            ),
            models.Index(
                fields=["begin_at"],
                condition=models.Q(state=JobState.HELD, begin_at__isnull=False),
                name="job_held_until",
            ),
            # Those that may be late, of all that are open.
            models.Index(
                fields=["finish_by"],
                condition=models.Q(finish_by__isnull=False, ended_at__isnull=True),
                name="job_to_finish_by",
            ),
            # Those to look at for their time limit, of all that run.
            models.Index(
                fields=["state"],
                condition=models.Q(notify__isnull=False, ended_at__isnull=True),
                name="job_asks_for_news",
            ),
            # Those to look at for their highest price, of all in these states.
            models.Index(
                fields=["state"],
                condition=models.Q(max_cost_steps__isnull=False),
                name="job_with_max_cost",
            ),
            models.Index(
                fields=["owner", "name"],
                condition=models.Q(state=JobState.HELD, is_singleton=True),
                name="job_held_singleton",
            ),
            # The open ones of a group, whatever its history; and all of it, the newest first.
            models.Index(
                fields=["owner", "group_name"],
                condition=models.Q(group_name__isnull=False, ended_at__isnull=True),
                name="job_open_in_group",
            ),
            models.Index(
                fields=["group_name", "-id"],
                condition=models.Q(group_name__isnull=False),
                name="job_by_group",
            ),
            models.Index(
                fields=["job_set", "array_index"],
                condition=models.Q(state=JobState.HELD, job_set__isnull=False),
                name="job_held_task",
            ),
            models.Index(
                fields=["booked_in"],
                condition=models.Q(booked_in__isnull=False),
                name="job_by_booking",
            ),
            models.Index(
                fields=["job_set", "-id"],
                condition=models.Q(job_set__isnull=False),
                name="job_by_set",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=[str(s) for s in JobState]), name="job_state_known"
            ),
            models.CheckConstraint(
                condition=models.Q(
                    nodes__gte=models.F("nodes_min"),
                    nodes_min__gte=1,
                    gpu_milli__range=(1, 1000),
                    cpus__gte=1,
                    time_limit_s__gte=1,
                ),
                name="job_sizes_positive",
            ),
            models.UniqueConstraint(
                fields=["job_set", "array_index"],
                condition=models.Q(job_set__isnull=False),
                name="one_task_per_index",
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk} {self.name}"

    @property
    def nodes_words(self) -> str:
        """Such as "8 nodes", or "2 to 8 nodes" of an elastic job."""
        least = f"{self.nodes_min} to " if self.nodes_min < self.nodes else ""
        return f"{least}{self.nodes} node{'' if self.nodes == 1 else 's'}"

    @property
    def end_shown(self) -> str:
        """`end_reason` as far as it says what the job is now: of one that was paused, let go and
        held since, the pause says nothing any more."""
        if self.state != JobState.HELD or self.end_reason not in PAUSES:
            return self.end_reason
        is_over = self.wait_reason not in _OF_PAUSES or AFTER_PAUSE in self.wait_facts
        return "" if is_over else self.end_reason

    @property
    def finish_policy(self) -> FinishPolicy | None:
        """What becomes of it if it is late; None for one that has no moment to be finished by."""
        if self.finish_by is None:
            return None
        return FinishPolicy.KEEP if self.start_by is None else FinishPolicy.CANCEL

    @property
    def max_cost(self) -> Decimal | None:
        """What all its attempts together may cost, in the currency of the books."""
        return None if self.max_cost_steps is None else from_steps(self.max_cost_steps)

    @property
    def waits_since(self) -> datetime:
        """When it began to wait, whoever it has let go first since."""
        return self.yielded_from or self.queued_at

    @property
    def gpus(self) -> int:
        """Devices in all."""
        return self.nodes * self.gpus_per_node

    @property
    def least_gpus(self) -> int:
        """With how many it starts."""
        return self.nodes_min * self.gpus_per_node


class SubmitKey(models.Model):
    """Remembers an idempotency key: same key and body answer with the same job, for a day, those of
    forms for 30."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    request_hash = models.CharField(max_length=64)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="submit_key_once_per_user")
        ]
