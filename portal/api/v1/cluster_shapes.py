"""Pools, nodes and waiting lines as JSON: the shapes for the schema."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from portal.api.parts import Part
from scheduler.selectors.cluster import NodeView, PoolSummary
from scheduler.selectors.queues import QueueRow
from scheduler.services.nodes.cutting import MOST_SLOTS, SLOT_ISOLATIONS
from scheduler.states import Isolation, Tier


class PoolShape(serializers.Serializer[Any]):
    """GPU counts: total = allocated + free + down. `queued` counts waiting jobs."""

    name = serializers.CharField()
    description = serializers.CharField()
    nodes = serializers.IntegerField()
    models = serializers.ListField(child=serializers.CharField())
    total = serializers.IntegerField()
    allocated = serializers.IntegerField()
    free = serializers.IntegerField()
    down = serializers.IntegerField()
    queued = serializers.IntegerField()
    is_paused = serializers.BooleanField()
    isolation = serializers.CharField()


class Pools(Part):
    """All pools."""

    items = PoolShape(many=True)


class PoolBody(serializers.Serializer[Any]):
    """A new pool."""

    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=255, required=False, allow_blank=True)


class IsolationBody(serializers.Serializer[Any]):
    """How far the pool's nodes must at least keep jobs apart; empty: as they do."""

    isolation = serializers.ChoiceField([str(one) for one in Isolation], allow_blank=True)


class DeviceShape(serializers.Serializer[Any]):
    """A GPU, or a part of one. `job` is null when it is free, or held by a job you may not see.

    `name` is its number on the node, and of a slot also that on the card. A part is `milli`
    thousandths of a card, kept apart as `isolation` says.
    """

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    name = serializers.CharField()
    milli = serializers.IntegerField()
    isolation = serializers.CharField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    link_group = serializers.CharField()
    health = serializers.CharField()
    health_reason = serializers.CharField()
    is_simulated = serializers.BooleanField()
    is_held = serializers.BooleanField()
    job = serializers.IntegerField(allow_null=True)


class NodeDataShape(serializers.Serializer[Any]):
    """A data set that the node's agent found there."""

    name = serializers.CharField()
    size_mib = serializers.IntegerField()


class NodeShape(serializers.Serializer[Any]):
    """A machine with an agent. `block`, `rack` and `labels` are what operators say.

    `datasets` is what the agent says lies there, `datasets_problem` what it left out and why.
    """

    name = serializers.CharField()
    pool = serializers.CharField()
    state = serializers.CharField()
    state_reason = serializers.CharField()
    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    agent_version = serializers.CharField()
    driver = serializers.CharField()
    isolation = serializers.CharField()
    block = serializers.CharField()
    rack = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    last_seen_at = serializers.DateTimeField(allow_null=True)
    total = serializers.IntegerField()
    held = serializers.IntegerField()
    is_simulated = serializers.BooleanField()
    datasets = NodeDataShape(many=True)
    datasets_problem = serializers.CharField()
    devices = DeviceShape(many=True)


class Nodes(Part):
    """All nodes that are not retired."""

    items = NodeShape(many=True)


class DrainBody(serializers.Serializer[Any]):
    """Why a node is drained; shown to people. `stop_jobs`: its jobs save, stop and queue again."""

    reason = serializers.CharField(max_length=200, required=False, allow_blank=True)
    stop_jobs = serializers.BooleanField(required=False)


class QuarantineBody(serializers.Serializer[Any]):
    """Why a node is not to be trusted; shown to people. What runs there goes on."""

    reason = serializers.CharField(max_length=200)


class OffBody(serializers.Serializer[Any]):
    """How somebody knows that a silent node has no power."""

    reason = serializers.CharField(max_length=200)


class DeviceBody(serializers.Serializer[Any]):
    """What is to become of a GPU, and why; `quarantine` needs a reason.

    `cut` offers the card as so many `slots`, each for a job of its own; 1 makes it whole again.
    """

    action = serializers.ChoiceField(choices=["quarantine", "check", "return", "cut"])
    reason = serializers.CharField(max_length=200, required=False, allow_blank=True)
    slots = serializers.IntegerField(required=False, min_value=1, max_value=MOST_SLOTS)
    isolation = serializers.ChoiceField(required=False, choices=list(SLOT_ISOLATIONS))


class PlaceBody(serializers.Serializer[Any]):
    """Where a node stands; empty for unknown."""

    rack = serializers.CharField(max_length=63, required=False, allow_blank=True)
    block = serializers.CharField(max_length=63, required=False, allow_blank=True)


class LabelsBody(serializers.Serializer[Any]):
    """All labels of a node."""

    labels = serializers.DictField(child=serializers.CharField(max_length=63))


class QueuePlace(serializers.Serializer[Any]):
    """One place in the line; `job`, `name` and `owner` are null for jobs you may not see.

    What made the place, of your own: `share`, the dominant share over weight of the organisation,
    the team and the owner as it counts now, the least goes first (null where no share counts);
    `is_overdue`, it waited longer than its pool lets anybody; `order`, the policy's.
    """

    position = serializers.IntegerField()
    job = serializers.IntegerField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    tier = serializers.CharField()
    nodes = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpu_model = serializers.CharField()
    queued_at = serializers.DateTimeField()
    sentence = serializers.CharField()
    order = serializers.CharField(allow_null=True)
    share = serializers.ListField(child=serializers.FloatField(), allow_null=True)
    is_overdue = serializers.BooleanField(allow_null=True)


class OrderBody(serializers.Serializer[Any]):
    """Numbers of your waiting jobs, of one tier, in the order in which they shall go first; none:
    all of yours in this pool go in the order of submit again."""

    jobs = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1), max_length=100
    )


class QueueShape(Part):
    """A pool's waiting line, in the order jobs are considered."""

    pool = serializers.CharField()
    is_paused = serializers.BooleanField()
    items = QueuePlace(many=True)


def show_pool(row: PoolSummary) -> dict[str, Any]:
    """A pool as PoolShape."""
    return {
        "name": row.pool.name,
        "description": row.pool.description,
        "nodes": row.nodes,
        "models": sorted(row.models),
        "total": row.total,
        "allocated": row.allocated,
        "free": row.free,
        "down": row.down,
        "queued": row.queued,
        "is_paused": row.is_paused,
        "isolation": row.pool.isolation,
    }


def show_node(view: NodeView) -> dict[str, Any]:
    """A node as NodeShape."""
    node, data = view.node, view.node.data or {}
    return {
        "name": node.name,
        "pool": node.pool.name,
        "state": node.state,
        "state_reason": node.state_reason,
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "agent_version": node.agent_version,
        "driver": node.driver,
        "isolation": node.isolation,
        "block": node.block,
        "rack": node.rack,
        "labels": node.labels,
        "last_seen_at": node.last_seen_at,
        "total": view.total,
        "held": view.held,
        "is_simulated": view.is_simulated,
        "datasets": [{"name": name, "size_mib": mib} for name, mib in data.get("sets", ())],
        "datasets_problem": data.get("problem", ""),
        "devices": [
            {
                "uuid": one.device.uuid,
                "index": one.device.index,
                "name": one.device.label,
                "milli": one.device.milli,
                "isolation": one.device.isolation,
                "model": one.device.model,
                "memory_mib": one.device.memory_mib,
                "link_group": one.device.link_group,
                "health": one.device.health,
                "health_reason": one.device.health_reason,
                "is_simulated": one.device.is_simulated,
                "is_held": one.is_held,
                "job": one.job.pk if one.job else None,
            }
            for one in view.devices
        ],
    }


def show_place(row: QueueRow) -> dict[str, Any]:
    """A place in the line as QueuePlace."""
    job = row.job
    return {
        "position": row.position,
        "job": job.pk if job else None,
        "name": job.name if job else None,
        "owner": job.owner.username if job else None,
        "project": job.project.path if job else None,
        "tier": Tier(row.tier).name.lower(),
        "nodes": row.nodes,
        "gpus": row.gpus,
        "gpu_model": row.gpu_model,
        "queued_at": row.queued_at,
        "sentence": row.sentence,
        "order": row.standing.order if row.standing else None,
        "share": row.standing.share if row.standing else None,
        "is_overdue": row.standing.is_overdue if row.standing else None,
    }
