"""Tries to run a job, their shares of nodes, and the devices they hold."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import models

from accounts.models import Project
from scheduler.models.cluster import Device, Node
from scheduler.models.jobs import Job
from scheduler.states import END_RULES, UNHEARD_NODES, AttemptState, EndReason, FailureClass

# Ends that speak against the node, not against the program nor an operator.
NODE_FAULTS = sorted(
    str(reason)
    for reason, rule in END_RULES.items()
    if rule.failure in (FailureClass.INFRA_GPU, FailureClass.INFRA_NODE, FailureClass.PLATFORM)
    and reason is not EndReason.NODE_DRAINED
)


class Attempt(models.Model):
    """One try to run a job. Its id is the *fence*: monotone, and carried by every message.

    `stop_*` say what was asked for, `stopped_for` for which job room was to be made, `stop_facts`
    what its sentence says beside, who (`by`) asked, which ranks' nodes are `at_fault` and how
    (`fault`), and for which fault of a node it was being stopped before; `end_*` say what came of
    it. `failure` is the class of the end and `triage` what speaks for it: `signature`, `evidence`
    (`rank`, `line`, `text`, of the log), `is_confirmed` by the node, and `then`: retried free, from
    the user's retries, by a retry rule of the job's own, or not. Which rule, `end_facts` say.
    `checkpoint_*` tell of the last checkpoint that rank 0's node confirmed: its absolute path,
    bytes, SHA-256 and step, when it was taken (the server's clock), and what is wrong with a newer
    one. `resumes` is the attempt whose checkpoint this one was offered; `resume_from`,
    `resume_step` and `resume_problem` are what its node made of that.
    `extended_to_s`: its time limit, where it was given more than it started with.
    `cost_limit_s`: for how long its job's highest price pays, from `assigned_at`, less its grace.
    `standing` has the factors of the order at its start, the fields of the engine's `Standing`.
    `warnings`: how many lines of its logs say so, of all ranks; None while they were not counted.
    From `warnings_at` on nobody counts again: None by then means that nothing could be read.
    `warnings_from`: the rank, the line and the count so far where a long count goes on.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16, default=AttemptState.ASSIGNED)
    master_port = models.PositiveIntegerField(null=True, blank=True)
    resumes = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    resume_from = models.CharField(max_length=1024, blank=True)
    resume_step = models.PositiveBigIntegerField(null=True, blank=True)
    resume_problem = models.CharField(max_length=255, blank=True)
    code_commit = models.CharField(max_length=64, blank=True)
    code_patch = models.TextField(blank=True)
    cost_limit_s = models.PositiveIntegerField(null=True, blank=True)
    extended_to_s = models.PositiveIntegerField(null=True, blank=True)
    stop_reason = models.CharField(max_length=32, blank=True)
    stop_grace_s = models.PositiveIntegerField(default=30)
    stop_actor_name = models.CharField(max_length=150, blank=True)
    stop_facts = models.JSONField(null=True, blank=True)
    stopped_for = models.ForeignKey(
        Job, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    end_reason = models.CharField(max_length=32, blank=True)
    end_facts = models.JSONField(default=dict, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    failure = models.CharField(max_length=16, blank=True)
    triage = models.JSONField(default=dict, blank=True)
    checkpoint_at = models.DateTimeField(null=True, blank=True)
    checkpoint_step = models.PositiveBigIntegerField(null=True, blank=True)
    checkpoint_path = models.CharField(max_length=1024, blank=True)
    checkpoint_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    checkpoint_digest = models.CharField(max_length=64, blank=True)
    checkpoint_problem = models.CharField(max_length=255, blank=True)
    standing = models.JSONField(default=dict, blank=True)
    warnings = models.PositiveIntegerField(null=True, blank=True)
    warnings_at = models.DateTimeField(null=True, blank=True)
    warnings_from = models.JSONField(null=True, blank=True)
    assigned_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    stopping_at = models.DateTimeField(null=True, blank=True)
    released_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["job_id", "number"]
        indexes = [
            models.Index(
                fields=["state"],
                condition=~models.Q(state=AttemptState.ENDED),
                name="attempt_live",
            ),
            models.Index(
                fields=["ended_at"],
                condition=models.Q(ended_at__isnull=False, warnings_at__isnull=True),
                name="attempt_uncounted",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once"),
            models.UniqueConstraint(
                fields=["job"],
                condition=~models.Q(state=AttemptState.ENDED),
                name="one_live_attempt_per_job",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=[str(s) for s in AttemptState]),
                name="attempt_state_known",
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of job {self.job_id}"

    @property
    def paid_until(self) -> datetime | None:
        """When it ends at the latest for its job's highest price."""
        limit_s = self.cost_limit_s
        return None if limit_s is None else self.assigned_at + timedelta(seconds=limit_s)

    @property
    def has_log(self) -> bool:
        """Whether the log of any of its ranks is kept still; of none yet it will be."""
        placements = self.placements.all()
        return not placements or any(each.log_pruned_at is None for each in placements)


class Placement(models.Model):
    """An attempt's share of one node: rank, what it reported last, and how much log arrived.

    `state` is the node's last word about its rank. `log_size` bytes are durable; the rank's end
    is complete once they reach `log_expected` and no checkpoint is still being read there. More may
    come after the attempt's end, of which nothing but readers of the log hear.
    `log_pruned_at`: its log is no longer kept, and counts as empty. `ran_until`: when its program
    ended by the node's word, which came at `ran_told_at`, perhaps long after `ended_at`; written
    once. `left_since`: when the instance of its node that was given the rank was heard last, where
    one speaks now that does not know it.
    """

    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, related_name="placements", db_index=False
    )
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="placements")
    rank = models.PositiveIntegerField()
    cpus = models.PositiveIntegerField()
    memory_mib = models.PositiveBigIntegerField()
    reported = models.CharField(max_length=16, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True)
    end_reason = models.CharField(max_length=32, blank=True)
    detail = models.TextField(blank=True)
    log_expected = models.PositiveBigIntegerField(null=True, blank=True)
    log_size = models.PositiveBigIntegerField(default=0)
    log_lines = models.PositiveBigIntegerField(default=0)
    log_pruned_at = models.DateTimeField(null=True, blank=True)
    checkpoint_pending = models.BooleanField(default=False)
    ran_until = models.DateTimeField(null=True, blank=True)
    ran_told_at = models.DateTimeField(null=True, blank=True)
    left_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["attempt_id", "rank"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "node"], name="placement_node_once"),
            models.UniqueConstraint(fields=["attempt", "rank"], name="placement_rank_once"),
        ]
        indexes = [
            models.Index(
                fields=["node"],
                condition=models.Q(ended_at__isnull=True),
                name="placement_open_on_node",
            ),
            # Whole: SQLite does not see that a parameter lies within the condition of a part.
            models.Index(fields=["end_reason", "ended_at"], name="placement_by_end"),
            # Of those that were told when the server had long taken the rank for ended.
            models.Index(
                fields=["ran_told_at"],
                condition=models.Q(ran_told_at__gt=models.F("ended_at")),
                name="placement_told_late",
            ),
        ]


class Allocation(models.Model):
    """One device held by one placement, from - to; the thing that is billed."""

    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="allocations")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="allocations")
    acquired_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            # With all that a timeline says of a past: thousands of rows are not read beside it.
            models.Index(
                fields=["released_at", "placement", "acquired_at"], name="allocation_by_times"
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["device"],
                condition=models.Q(released_at__isnull=True),
                name="one_open_allocation_per_device",
            )
        ]


class LogChunk(models.Model):
    """A contiguous piece of a rank's log: `size` bytes at `offset`, kept under `path`.

    `first_line` and `lines` (line ends in the piece) let a reader find a line without reading
    the whole log.
    """

    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="log_chunks")
    offset = models.PositiveBigIntegerField()
    size = models.PositiveIntegerField()
    first_line = models.PositiveBigIntegerField()
    lines = models.PositiveIntegerField()
    digest = models.CharField(max_length=64)
    path = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["placement_id", "offset"]
        constraints = [
            models.UniqueConstraint(fields=["placement", "offset"], name="log_chunk_once")
        ]
        indexes = [
            models.Index(fields=["placement", "first_line", "offset"], name="log_chunk_by_line")
        ]


class Retention(models.Model):
    """How many days a project keeps what its jobs leave, from their end on; None: as the settings
    say. Samples are the readings of GPUs, raw and by the hour."""

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="retention")
    log_days = models.PositiveIntegerField(null=True, blank=True)
    file_days = models.PositiveIntegerField(null=True, blank=True)
    sample_days = models.PositiveIntegerField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return f"retention of {self.project_id}"


class OutputFile(models.Model):
    """A file of a job's output folder on the node of one rank, as its last attempt there left it.

    `stored` bytes of `size` are durable, in parts below `folder`; it is whole from `completed_at`
    on, when the stored bytes had the `digest` (SHA-256, hex) the node told. `problem` says why
    there are none of it; `pruned_at`: its bytes are no longer kept.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="outputs", db_index=False)
    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="outputs")
    rank = models.PositiveIntegerField()
    name = models.CharField(max_length=512)
    size = models.PositiveBigIntegerField(default=0)
    stored = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    problem = models.CharField(max_length=255, blank=True)
    told_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True, blank=True)
    pruned_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["job_id", "rank", "name"]
        constraints = [
            models.UniqueConstraint(fields=["job", "rank", "name"], name="output_name_once")
        ]

    def __str__(self) -> str:
        return f"{self.name} of job {self.job_id}"

    @property
    def word(self) -> str:
        """Its state: whole, arriving, away (on a node that is not heard), refused or pruned."""
        if self.pruned_at is not None:
            return "pruned"
        if self.problem:
            return "refused"
        if self.completed_at is not None:
            return "whole"
        return "away" if self.placement.node.state in UNHEARD_NODES else "arriving"

    @property
    def folder(self) -> str:
        """Where its parts are stored, below a folder of its job."""
        return f"outputs/{self.job_id % 1000:03d}/{self.job_id}/{self.pk}"

    def part_path(self, offset: int) -> str:
        """Where the part that begins at this byte is stored."""
        return f"{self.folder}/{offset:012d}"
