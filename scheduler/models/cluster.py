"""Pools, nodes and devices: what there is to run on."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import models

from scheduler.states import DeviceHealth, NodeState, remedy_of


def _choices(enum: type[StrEnum]) -> list[tuple[str, str]]:
    return [(str(member), str(member)) for member in enum]


class Pool(models.Model):
    """Interchangeable nodes. People name it by its slug.

    `isolation`: how far its nodes must at least keep jobs apart; empty: as they do. `may_wait_s`:
    how long its past says that a job may wait before it goes first; None where no order needs it.
    """

    name = models.SlugField(max_length=63, unique=True)
    description = models.CharField(max_length=255, blank=True)
    isolation = models.CharField(max_length=16, blank=True)
    may_wait_s = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


def name_once_retired(name: str, number: int) -> str:
    """What the node of this number is called from then on; its name may be used again."""
    return f"{name[:50]}~{number}"


class Node(models.Model):
    """A machine with an agent.

    `desired_revision` counts every change of what the node should run; a held sync is answered
    as soon as it is higher than what the agent has seen. `drain_requested_at` outlives silence:
    a draining node that comes back still drains. `rack` (its name within `block`) and `labels` are
    an operator's word.
    """

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=63, unique=True)
    state = models.CharField(max_length=16, choices=_choices(NodeState), default=NodeState.READY)
    token_hash = models.CharField(max_length=64, unique=True, null=True, blank=True)
    token_since = models.DateTimeField(null=True, blank=True)
    # Offered to its agent, sealed; its first use makes it the token.
    next_token_hash = models.CharField(max_length=64, unique=True, null=True, blank=True)
    next_token = models.BinaryField(null=True, blank=True)
    # Replaced, and good for calls that were under way.
    old_token_hash = models.CharField(max_length=64, unique=True, null=True, blank=True)
    old_token_until = models.DateTimeField(null=True, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    agent_id = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=32, blank=True)
    protocol = models.PositiveSmallIntegerField(default=1)
    address = models.CharField(max_length=255, blank=True)
    cpus = models.PositiveIntegerField(default=1)
    memory_mib = models.PositiveBigIntegerField(default=0)
    scratch_mib = models.PositiveBigIntegerField(default=0)
    kernel = models.CharField(max_length=128, blank=True)
    driver = models.CharField(max_length=64, blank=True)
    # A word of `Isolation`; empty: its agent does not say.
    isolation = models.CharField(max_length=16, blank=True)
    clock_skew_s = models.FloatField(default=0)
    desired_revision = models.BigIntegerField(default=1)
    last_seen_at = models.DateTimeField(null=True, blank=True, db_index=True)
    drain_requested_at = models.DateTimeField(null=True, blank=True)
    state_reason = models.CharField(max_length=255, blank=True)
    block = models.CharField(max_length=63, blank=True)
    rack = models.CharField(max_length=63, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    # Set with a quarantine that the node's own word brought about, and that its word ends.
    trouble = models.CharField(max_length=24, blank=True)
    # What it last said is wrong with itself, whatever its state was: `kind` and `detail`.
    own_trouble = models.JSONField(null=True, blank=True)
    # Another machine that spoke as this node: its boot id, when, and whether it is a copy.
    rival = models.JSONField(null=True, blank=True)
    # Who says that it has no power, by whom, when and why: counts while nothing was heard since.
    said_off = models.JSONField(null=True, blank=True)
    # Some device here waits for a check; spares every sync a query.
    has_checks = models.BooleanField(default=False)
    # What its agent says of data sets that lie there: `sets`, pairs of name and MiB, and `problem`.
    data = models.JSONField(null=True, blank=True)
    # Set where the database was put back: what it runs counts once it has seen this revision.
    counts_from = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    # What the call at hand has shown; empty where no node speaks.
    shown_hash = ""

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=[str(s) for s in NodeState]), name="node_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def remedy(self) -> str:
        """What an operator can do about its trouble; empty without one."""
        return remedy_of(self.trouble)

    @property
    def token_age_from(self) -> datetime:
        """Since when its token is what it is; before tokens were renewed, since its enrolment."""
        return self.token_since or self.created_at

    @property
    def off_by_one(self) -> dict[str, Any] | None:
        """What one operator says of a silent node's power, for another to confirm."""
        said = self.said_off
        if said is None or self.state != NodeState.SILENT:
            return None
        heard = self.last_seen_at
        return said if heard is None or said["at"] > heard.timestamp() else None


class Device(models.Model):
    """A schedulable GPU, or a part of one (`parent`, the card). Simulated ones say so everywhere.

    A part is a device of its own, with its own model name and price: one of the equal `slot`s that
    an operator cut the card into, or a MIG instance that its node reports. It is `milli`
    thousandths of the card; `isolation` says how it is kept apart from the others there, empty for
    a whole card. Only what is `in_service` can be held and is capacity: neither a card that is in
    parts, nor a part that is no more.
    `trouble` names what put it into quarantine; empty if an operator did, who then decides when
    it returns. `check_at`: from when the node is asked to try it out. `answered`: of the troubles
    that its node tells, those that were acted on; by kind, since when by the node's clock.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    parent = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="slots"
    )
    uuid = models.CharField(max_length=96, unique=True)
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=96)
    memory_mib = models.PositiveBigIntegerField()
    link_group = models.CharField(max_length=63, blank=True)
    health = models.CharField(
        max_length=16, choices=_choices(DeviceHealth), default=DeviceHealth.HEALTHY
    )
    health_reason = models.CharField(max_length=255, blank=True)
    trouble = models.CharField(max_length=24, blank=True)
    check_at = models.DateTimeField(null=True, blank=True)
    answered = models.JSONField(null=True, blank=True)
    is_simulated = models.BooleanField(default=False)
    is_present = models.BooleanField(default=True)
    milli = models.PositiveSmallIntegerField(default=1000)
    slot = models.PositiveSmallIntegerField(null=True, blank=True)
    isolation = models.CharField(max_length=16, blank=True)
    in_service = models.BooleanField(default=True)

    class Meta:
        ordering = ["node_id", "index", "slot", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(milli__range=(1, 1000)), name="device_milli_of_a_card"
            ),
            models.UniqueConstraint(
                fields=["parent", "slot"],
                condition=models.Q(in_service=True, slot__isnull=False),
                name="one_device_per_slot_of_a_card",
            ),
        ]

    def __str__(self) -> str:
        return self.uuid

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a card."""
        return self.parent_id is not None

    @property
    def remedy(self) -> str:
        """What an operator can do about its trouble; empty without one."""
        return remedy_of(self.trouble).replace("INDEX", str(self.index))

    @property
    def label(self) -> str:
        """Its number on the node, and of a slot also that on the card: `3`, `3.1`."""
        return str(self.index) if self.slot is None else f"{self.index}.{self.slot + 1}"


def slot_model(model: str, slots: int) -> str:
    """What a slot of such a card is called where prices, quotas and jobs name models."""
    return f"{model[:90]} 1/{slots}"


class Licence(models.Model):
    """A named number of tokens that jobs hold while they run, in whatever pool."""

    name = models.SlugField(max_length=63, unique=True)
    total = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Dataset(models.Model):
    """Data that jobs read and that nodes may hold a copy of; jobs name it."""

    name = models.SlugField(max_length=63, unique=True)
    size_mib = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class DatasetCopy(models.Model):
    """How much of a data set a node holds; null is all of it, however large it is."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="copies")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    held_mib = models.PositiveBigIntegerField(null=True, blank=True)
    told_at = models.DateTimeField()

    class Meta:
        ordering = ["node__name"]
        constraints = [
            models.UniqueConstraint(fields=["dataset", "node"], name="one_copy_of_data_per_node")
        ]


class NodeToken(models.Model):
    """A single-use enrolment token for one pool; only its hash is kept."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="node_tokens")
    token_hash = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["-created_at"]
