"""Pools, nodes and waiting lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from portal.api.operations import ApiView, Query, body_of, operation
from portal.api.pagination import sort_of
from portal.api.parts import PART_QUERY, part_of, reach_of
from portal.api.shapes import viewer_of
from portal.api.v1.cluster_shapes import (
    DeviceBody,
    DrainBody,
    IsolationBody,
    LabelsBody,
    Nodes,
    NodeShape,
    OffBody,
    OrderBody,
    PlaceBody,
    PoolBody,
    Pools,
    PoolShape,
    QuarantineBody,
    QueueShape,
    show_node,
    show_place,
    show_pool,
)
from scheduler.loop.answering import places_now
from scheduler.models import Node
from scheduler.selectors import cluster as select
from scheduler.selectors.jobs import get_visible_jobs
from scheduler.selectors.ordered.columns import NODE_COLUMNS
from scheduler.selectors.queues import QueueRow, queue_rows, queues_of
from scheduler.services import nodes as services
from scheduler.services import queues as queue_services
from scheduler.services.changing.turns import order_jobs
from scheduler.services.nodes.credentials import renew_token
from scheduler.services.nodes.devices.by_hand import act_on_device
from scheduler.services.nodes.power import say_node_is_off
from scheduler.services.nodes.quarantine import quarantine_by_hand
from scheduler.services.nodes.register import require_isolation
from scheduler.services.sites.places import label_node, place_node

# Of a line so much is put in order at least, for the order of its first is not that of their age.
_LEAST_READ = 500


class PoolList(ApiView):
    """`/pools/`."""

    @operation(
        "pools_list",
        "Pools and how full they are",
        scope="nodes:read",
        query=PART_QUERY,
        reply=Pools,
    )
    def get(self, request: Request) -> Response:
        return Response(
            part_of(
                request,
                _summaries(request),
                lambda found: [show_pool(row) for row in found],
                key=lambda row: row.pool.pk,
            )
        )

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
        return Response(show_pool(_summaries(request, [pool.name])[0]), status=201)


class PoolIsolation(ApiView):
    """`/pools/<name>/isolation/`."""

    @operation(
        "pools_isolation",
        "Say how far its nodes must keep jobs apart (operators)",
        scope="nodes:write",
        body=IsolationBody,
        reply=PoolShape,
    )
    def post(self, request: Request, name: str) -> Response:
        sent, actor = body_of(request, IsolationBody), viewer_of(request)
        pool = select.get_visible_pool(actor, name)
        require_isolation(actor=actor, pool=pool, **sent)
        return Response(show_pool(_summaries(request, [pool.name])[0]))


def _summaries(request: Request, only: list[str] | None = None) -> list[select.PoolSummary]:
    return select.pool_summaries(viewer_of(request), only=only)


class NodeList(ApiView):
    """`/nodes/`."""

    @operation(
        "nodes_list",
        "Nodes, their GPUs and what runs on them",
        scope="nodes:read",
        query=[
            Query("pool", str, "Only this pool's nodes."),
            Query("sort", str, f"{', '.join(NODE_COLUMNS)}; with a - before it the highest first."),
            *PART_QUERY,
        ],
        reply=Nodes,
    )
    def get(self, request: Request) -> Response:
        viewer, name = viewer_of(request), request.query_params.get("pool", "")
        pool = select.get_visible_pool(viewer, name) if name else None
        sort = sort_of(request, NODE_COLUMNS, "name")
        found = select.nodes_overview(viewer, pool=pool, column=sort.column, falls=sort.falls)
        return Response(
            part_of(
                request,
                found,
                lambda nodes: [show_node(view) for view in nodes],
                key=lambda view: view.node.pk,
            )
        )


class NodeByName(ApiView):
    """`/nodes/<name>/`."""

    @operation("nodes_read", "One node", scope="nodes:read", reply=NodeShape)
    def get(self, request: Request, name: str) -> Response:
        viewer = viewer_of(request)
        node = select.get_visible_node(viewer, name)
        return Response(show_node(select.node_view(viewer, node)))


def _node_action(
    name: str,
    summary: str,
    service: Callable[..., Node],
    shape: type[Serializer[Any]] | None = None,
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
            return Response(show_node(select.node_view(actor, node)))

    return Action


NodeDrain = _node_action("drain", "Let running jobs end, take none", services.drain_node, DrainBody)
NodeResume = _node_action("resume", "Take jobs again", services.resume_node)
NodeQuarantine = _node_action(
    "quarantine", "Start nothing new there until it is resumed", quarantine_by_hand, QuarantineBody
)
NodeRetire = _node_action("retire", "Take it out for good", services.retire_node)
NodeOff = _node_action(
    "off", "Say that a silent node has no power; a second person confirms", say_node_is_off, OffBody
)
NodeToken = _node_action("renew_token", "Have its token replaced at its next call", renew_token)
NodePlace = _node_action("place", "Say in which rack and block it stands", place_node, PlaceBody)
NodeLabels = _node_action("label", "Give it exactly these labels", label_node, LabelsBody)


class NodeDevice(ApiView):
    """`/nodes/<name>/gpus/<index>/`."""

    @operation(
        "nodes_device",
        "Take a GPU out of service, have it checked, return it, or cut it into slots (operators)",
        scope="nodes:write",
        body=DeviceBody,
        reply=NodeShape,
    )
    def post(self, request: Request, name: str, index: int) -> Response:
        sent, actor = body_of(request, DeviceBody), viewer_of(request)
        device = select.get_visible_device(actor, name, index)
        act_on_device(actor=actor, device=device, **sent)
        return Response(show_node(select.node_view(actor, device.node)))


class QueueByPool(ApiView):
    """`/queue/<pool>/`."""

    @operation(
        "queue_read",
        "Who waits for a pool",
        scope="jobs:read",
        query=PART_QUERY,
        reply=QueueShape,
    )
    def get(self, request: Request, pool: str) -> Response:
        return Response(_show_queue(request, pool))


def _show_queue(request: Request, name: str) -> dict[str, Any]:
    viewer = viewer_of(request)
    pool, path = select.get_visible_pool(viewer, name), reverse("api:queue", args=[name])
    places = places_now(pool, now=timezone.now())
    rows = queue_rows(viewer, pool, places=places, limit=max(_LEAST_READ, reach_of(request, path)))
    return {
        "pool": pool.name,
        "is_paused": any(queue.is_paused for queue in queues_of(viewer, pool)),
        **part_of(
            request,
            rows,
            lambda found: [show_place(row) for row in found],
            key=_place_key,
            path=path,
        ),
    }


def _place_key(row: QueueRow) -> str:
    """Tells rows apart by no more than they show: some are other people's."""
    return f"{row.queued_at.isoformat()} {row.job.pk if row.job else row.gpus}"


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


class QueueOrder(ApiView):
    """`/queue/<pool>/order/`."""

    @operation(
        "queue_order",
        "Which of your waiting jobs goes first",
        scope="jobs:write",
        body=OrderBody,
        reply=QueueShape,
    )
    def post(self, request: Request, pool: str) -> Response:
        """Those named go first among your jobs of their tier in this pool. Who lets another go
        first stands behind it: nobody else's job is passed. 409 in a pool that goes by how long
        jobs run, and not by their age."""
        actor, named = viewer_of(request), body_of(request, OrderBody)["jobs"]
        line = select.get_visible_pool(actor, pool)
        order_jobs(actor=actor, pool=line, jobs=get_visible_jobs(actor, named))
        return Response(_show_queue(request, pool))


QueuePause = _queue_action("pause", "Start no more jobs (operators)", queue_services.pause_queue)
QueueResume = _queue_action("resume", "Start jobs again (operators)", queue_services.resume_queue)
