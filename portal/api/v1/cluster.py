"""Pools, nodes and waiting lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.operations import ApiView, Query, body_of, operation
from portal.api.shapes import viewer_of
from scheduler.models import Node
from scheduler.selectors import cluster as select
from scheduler.selectors.queues import QueueRow, queue_rows, queues_of
from scheduler.services import nodes as services
from scheduler.services import queues as queue_services
from scheduler.services.errors import NotFound
from scheduler.states import Tier


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


class Pools(serializers.Serializer[Any]):
    """All pools."""

    items = PoolShape(many=True)


class PoolBody(serializers.Serializer[Any]):
    """A new pool."""

    name = serializers.CharField(max_length=63)
    description = serializers.CharField(max_length=255, required=False, allow_blank=True)


class DeviceShape(serializers.Serializer[Any]):
    """A GPU. `job` is null when it is free, or held by a job you may not see (`is_held`)."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    health = serializers.CharField()
    is_simulated = serializers.BooleanField()
    is_held = serializers.BooleanField()
    job = serializers.IntegerField(allow_null=True)


class NodeShape(serializers.Serializer[Any]):
    """A machine with an agent."""

    name = serializers.CharField()
    pool = serializers.CharField()
    state = serializers.CharField()
    state_reason = serializers.CharField()
    cpus = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    agent_version = serializers.CharField()
    driver = serializers.CharField()
    last_seen_at = serializers.DateTimeField(allow_null=True)
    total = serializers.IntegerField()
    held = serializers.IntegerField()
    is_simulated = serializers.BooleanField()
    devices = DeviceShape(many=True)


class Nodes(serializers.Serializer[Any]):
    """All nodes that are not retired."""

    items = NodeShape(many=True)


class DrainBody(serializers.Serializer[Any]):
    """Why a node is drained; shown to people."""

    reason = serializers.CharField(max_length=200, required=False, allow_blank=True)


class NodeTokenBody(serializers.Serializer[Any]):
    """For which pool, and for how long the token may be used."""

    pool = serializers.CharField(max_length=63)
    minutes = serializers.IntegerField(required=False, default=15)


class NodeTokenShape(serializers.Serializer[Any]):
    """A single-use enrolment token, shown once, and the line to type on the node."""

    token = serializers.CharField()
    pool = serializers.CharField()
    expires_at = serializers.DateTimeField()
    command = serializers.CharField()


class QueuePlace(serializers.Serializer[Any]):
    """One place in the line; `job`, `name` and `owner` are null for jobs you may not see."""

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


class QueueShape(serializers.Serializer[Any]):
    """A pool's waiting line, in the order jobs are considered."""

    pool = serializers.CharField()
    is_paused = serializers.BooleanField()
    items = QueuePlace(many=True)


class PoolList(ApiView):
    """`/pools/`."""

    @operation("pools_list", "Pools and how full they are", scope="nodes:read", reply=Pools)
    def get(self, request: Request) -> Response:
        return Response({"items": [_show_pool(row) for row in _summaries(request)]})

    @operation(
        "pools_create",
        "Make a pool (operators)",
        scope="nodes:write",
        body=PoolBody,
        reply=PoolShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent = body_of(request, PoolBody)
        pool = services.create_pool(actor=viewer_of(request), **sent)
        return Response(_show_pool(_summaries(request, [pool.name])[0]), status=201)


def _summaries(request: Request, only: list[str] | None = None) -> list[select.PoolSummary]:
    return select.pool_summaries(viewer_of(request), only=only)


def _show_pool(row: select.PoolSummary) -> dict[str, Any]:
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
    }


class NodeList(ApiView):
    """`/nodes/`."""

    @operation(
        "nodes_list",
        "Nodes, their GPUs and what runs on them",
        scope="nodes:read",
        query=[Query("pool", str, "Only this pool's nodes.")],
        reply=Nodes,
    )
    def get(self, request: Request) -> Response:
        viewer, name = viewer_of(request), request.query_params.get("pool", "")
        pool = select.get_visible_pool(viewer, name) if name else None
        return Response(
            {"items": [_show_node(v) for v in select.nodes_overview(viewer, pool=pool)]}
        )


def _show_node(view: select.NodeView) -> dict[str, Any]:
    node = view.node
    return {
        "name": node.name,
        "pool": node.pool.name,
        "state": node.state,
        "state_reason": node.state_reason,
        "cpus": node.cpus,
        "memory_mib": node.memory_mib,
        "agent_version": node.agent_version,
        "driver": node.driver,
        "last_seen_at": node.last_seen_at,
        "total": view.total,
        "held": view.held,
        "is_simulated": view.is_simulated,
        "devices": [
            {
                "uuid": one.device.uuid,
                "index": one.device.index,
                "model": one.device.model,
                "memory_mib": one.device.memory_mib,
                "health": one.device.health,
                "is_simulated": one.device.is_simulated,
                "is_held": one.is_held,
                "job": one.job.pk if one.job else None,
            }
            for one in view.devices
        ],
    }


class NodeByName(ApiView):
    """`/nodes/<name>/`."""

    @operation("nodes_read", "One node", scope="nodes:read", reply=NodeShape)
    def get(self, request: Request, name: str) -> Response:
        viewer = viewer_of(request)
        node = select.get_visible_node(viewer, name)
        return Response(_show_node(select.node_view(viewer, node)))


def _node_action(
    name: str, summary: str, service: Callable[..., Node], shape: type[DrainBody] | None = None
) -> type[ApiView]:
    class Action(ApiView):
        """`/nodes/<name>/<action>/`."""

        @operation(
            f"nodes_{name}",
            f"{summary} (operators)",
            scope="nodes:write",
            body=shape,
            reply=NodeShape,
        )
        def post(self, request: Request, name: str) -> Response:
            sent = body_of(request, shape)
            actor = viewer_of(request)
            node = service(actor=actor, node=select.get_visible_node(actor, name), **sent)
            return Response(_show_node(select.node_view(actor, node)))

    return Action


NodeDrain = _node_action("drain", "Let running jobs end, take none", services.drain_node, DrainBody)
NodeResume = _node_action("resume", "Take jobs again", services.resume_node)
NodeRetire = _node_action("retire", "Take it out for good", services.retire_node)


class NodeTokens(ApiView):
    """`/nodes/tokens/`."""

    @operation(
        "nodes_tokens_create",
        "Make a single-use enrolment token (operators)",
        scope="nodes:write",
        body=NodeTokenBody,
        reply=NodeTokenShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, NodeTokenBody), viewer_of(request)
        try:
            pool = select.get_visible_pool(actor, sent["pool"])
        except NotFound:
            raise serializers.ValidationError({"pool": ["there is no such pool"]}) from None
        token, secret = services.issue_node_token(actor=actor, pool=pool, minutes=sent["minutes"])
        command = f"trainyard-agent enrol --run --server {settings.PUBLIC_URL} --token {secret}"
        shown = {"token": secret, "pool": pool.name, "expires_at": token.expires_at}
        return Response({**shown, "command": command}, status=201)


class QueueByPool(ApiView):
    """`/queue/<pool>/`."""

    @operation("queue_read", "Who waits for a pool", scope="jobs:read", reply=QueueShape)
    def get(self, request: Request, pool: str) -> Response:
        return Response(_show_queue(request, pool))


def _show_queue(request: Request, name: str) -> dict[str, Any]:
    viewer = viewer_of(request)
    pool = select.get_visible_pool(viewer, name)
    return {
        "pool": pool.name,
        "is_paused": any(queue.is_paused for queue in queues_of(viewer, pool)),
        "items": [_show_place(row) for row in queue_rows(viewer, pool)],
    }


def _show_place(row: QueueRow) -> dict[str, Any]:
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
    }


def _queue_action(name: str, summary: str, service: Callable[..., Any]) -> type[ApiView]:
    class Action(ApiView):
        """`/queue/<pool>/<action>/`."""

        @operation(f"queue_{name}", summary, scope="nodes:write", reply=QueueShape)
        def post(self, request: Request, pool: str) -> Response:
            body_of(request)
            actor = viewer_of(request)
            for queue in queues_of(actor, select.get_visible_pool(actor, pool)):
                service(actor=actor, queue=queue)
            return Response(_show_queue(request, pool))

    return Action


QueuePause = _queue_action("pause", "Start no more jobs (operators)", queue_services.pause_queue)
QueueResume = _queue_action("resume", "Start jobs again (operators)", queue_services.resume_queue)
