"""Pools, nodes and devices, for a viewer.

Everybody who is signed in sees the machines and how busy they are. Whose job is on them is shown
only to those who may see the job; to others it is "another team's".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce
from django.db.models.query_utils import FilteredRelation

from accounts.errors import NotFound
from accounts.models import User
from accounts.models.rows import AsJson, as_rows, partly_reading, rows_in
from accounts.permissions import can
from accounts.statements import AskedOnce, Word
from scheduler.models import Allocation, Device, Job, Node, NodeEvent, NodeToken, Pool, Queue
from scheduler.models.cluster import name_once_retired, slot_model
from scheduler.selectors.jobs import visible_jobs
from scheduler.selectors.ordered.columns import NODE_COLUMNS
from scheduler.selectors.ordered.ordering import Column, Place, in_order, page_in_order
from scheduler.states import DeviceHealth, JobState, NodeState

_OF_DEVICE = tuple(field.attname for field in Device._meta.concrete_fields)


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device and who holds it: `job` only if the viewer may see it, else `is_foreign`."""

    device: Device
    job: Job | None
    is_held: bool
    is_foreign: bool
    since: datetime | None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with its devices, as one viewer may see them."""

    node: Node
    devices: tuple[DeviceView, ...]

    @property
    def total(self) -> int:
        return len(self.devices)

    @property
    def held(self) -> int:
        return sum(view.is_held for view in self.devices)

    @property
    def is_simulated(self) -> bool:
        return any(view.device.is_simulated for view in self.devices)

    @property
    def jobs(self) -> list[Job]:
        """The visible jobs on it, each once."""
        return list({v.job.pk: v.job for v in self.devices if v.job is not None}.values())


@dataclass(slots=True)
class PoolSummary:
    """GPU counts of a pool: total = allocated + free + down."""

    pool: Pool
    nodes: int = 0
    total: int = 0
    allocated: int = 0
    down: int = 0
    queued: int = 0
    is_paused: bool = False
    has_simulated: bool = False
    models: set[str] = field(default_factory=set)

    @property
    def free(self) -> int:
        return self.total - self.allocated - self.down


def visible_pools(viewer: User) -> QuerySet[Pool]:
    """Everybody who is signed in sees all pools."""
    return Pool.objects.all() if viewer.is_authenticated else Pool.objects.none()


def get_visible_pool(viewer: User, name: str) -> Pool:
    """Raises NotFound."""
    pool = visible_pools(viewer).filter(name=name).first()
    if pool is None:
        raise NotFound()
    return pool


def visible_nodes(viewer: User) -> QuerySet[Node]:
    """All nodes that are not retired."""
    if not viewer.is_authenticated:
        return Node.objects.none()
    return Node.objects.exclude(state=NodeState.RETIRED).select_related("pool").order_by("name")


def get_visible_node(viewer: User, name: str, **along: Any) -> Node:
    """`along`: what else comes with it. Raises NotFound, for names no database can hold as well."""
    rows = visible_nodes(viewer).annotate(**along).filter(name=name)
    if "\x00" in name or (node := rows.first()) is None:
        raise NotFound()
    return node


def is_retired(number: int, name: str) -> bool:
    """Whether the node of this number was `name` and is retired; it gave its name away then."""
    gone = Node.objects.filter(pk=number, state=NodeState.RETIRED)
    return gone.filter(name=name_once_retired(name, number)).exists()


def visible_node_tokens(viewer: User) -> QuerySet[NodeToken]:
    """All that were made, for operators; nobody else has to do with them."""
    if not can(viewer, "operate", None):
        return NodeToken.objects.none()
    return NodeToken.objects.select_related("pool", "created_by")


def open_node_tokens(viewer: User, *, now: datetime) -> QuerySet[NodeToken]:
    """Neither used nor ended; the next to end comes first."""
    waiting = visible_node_tokens(viewer).filter(used_at__isnull=True, expires_at__gt=now)
    return waiting.order_by("expires_at", "pk")


def get_visible_node_token(viewer: User, pk: int) -> NodeToken:
    """Raises NotFound."""
    token = visible_node_tokens(viewer).filter(pk=pk).first()
    if token is None:
        raise NotFound()
    return token


def get_visible_device(viewer: User, name: str, index: int) -> Device:
    """The GPU of that number on a node, the whole card; raises NotFound."""
    devices = Device.objects.filter(node=get_visible_node(viewer, name), is_present=True)
    device = devices.select_related("node").filter(index=index, parent__isnull=True).first()
    if device is None:
        raise NotFound()
    return device


def troubled_nodes(viewer: User) -> list[Node]:
    """Nodes that take no work now, for those who look after them."""
    return list(visible_nodes(viewer).exclude(state=NodeState.READY))


def nodes_overview(
    viewer: User,
    *,
    pool: Pool | None = None,
    names: Collection[str] | None = None,
    column: Column = NODE_COLUMNS["name"],
    falls: bool = False,
    after: Place | None = None,
    limit: int | None = None,
) -> list[NodeView]:
    """Nodes by a column with their devices and holders, in three queries; all of them, or of a
    pool, of some names, behind a place, so many."""
    nodes = visible_nodes(viewer)
    if pool is not None:
        nodes = nodes.filter(pool=pool)
    if names is not None:
        nodes = nodes.filter(name__in=names)
    if limit is None:
        return _views(viewer, list(in_order(nodes, column, falls=falls)))
    return _views(viewer, page_in_order(nodes, column, falls=falls, after=after, limit=limit))


def node_view(viewer: User, node: Node) -> NodeView:
    """One node with its devices and holders."""
    return _views(viewer, [node])[0]


def _views(viewer: User, nodes: list[Node]) -> list[NodeView]:
    # A device has one open allocation at most.
    now_held = FilteredRelation("allocations", condition=Q(allocations__released_at__isnull=True))
    rows = list(
        Device.objects.filter(node__in=nodes, is_present=True, in_service=True)
        .annotate(held_by=now_held)
        .values_list(*_OF_DEVICE, "held_by__placement__attempt__job_id", "held_by__acquired_at")
    )
    held = {row[-2] for row in rows if row[-2] is not None}
    # Only their numbers and names are shown.
    seen = visible_jobs(viewer).select_related(None).only("name")
    jobs = seen.in_bulk(held) if held else {}
    of_row = partly_reading(Device, _OF_DEVICE)
    by_node: dict[int, list[DeviceView]] = {}
    for row in rows:
        device, (number, since) = of_row(row), row[-2:]
        is_held, job = number is not None, jobs.get(number)
        by_node.setdefault(device.node_id, []).append(
            DeviceView(device, job, is_held, is_held and job is None, since)
        )
    return [NodeView(node, tuple(by_node.get(node.pk, ()))) for node in nodes]


def node_events(
    viewer: User,
    node: Node,
    *,
    kinds: Iterable[str] = (),
    limit: int = 100,
    before: int | None = None,
) -> QuerySet[NodeEvent]:
    """The node's history, newest first; of these kinds, or all of it; what came `before` an id."""
    if not viewer.is_authenticated:
        return NodeEvent.objects.none()
    events = node.events.filter(kind__in=kinds) if kinds else node.events.all()
    events = events.filter(pk__lt=before) if before else events
    return events.select_related("actor").order_by("-id")[:limit]


def models_to_price(viewer: User) -> list[str]:
    """What devices there are, and the slots that their cards are usually cut into."""
    if not viewer.is_authenticated:
        return []
    rows = Device.objects.filter(is_present=True).annotate(is_card=Q(parent__isnull=True))
    return with_usual_slots(rows.order_by().values_list("model", "is_card").distinct())


def with_usual_slots(found: Iterable[tuple[str, bool]]) -> list[str]:
    """These models, each with whether it is a whole card, and the usual slots of the cards."""
    models = set(found)
    slots = {slot_model(model, n) for model, is_card in models if is_card for n in (2, 4, 8)}
    return sorted({model for model, _ in models} | slots)


def pool_summaries(viewer: User, *, only: Iterable[str] | None = None) -> list[PoolSummary]:
    """How full each pool is, in one query."""
    if not viewer.is_authenticated:
        return []
    found = SUMMED.read() if only is None else _summed().filter(name__in=list(only))
    summaries = []
    for pool in found:
        row = PoolSummary(pool, pool.nodes_in_all, queued=pool.queued, is_paused=pool.is_paused)
        for model, simulated, usable, devices, held in rows_in(pool.devices_):
            row.total += devices
            row.allocated += held
            row.down += 0 if usable else devices - held
            row.has_simulated |= bool(simulated)
            row.models.add(model)
        summaries.append(row)
    return summaries


def _summed() -> QuerySet[Any]:
    nodes = Node.objects.filter(pool=OuterRef("pk")).exclude(state=NodeState.RETIRED)
    waiting = Job.objects.filter(pool=OuterRef("pk"), state=Word(JobState.QUEUED))
    return Pool.objects.annotate(
        is_paused=Exists(Queue.objects.filter(pool=OuterRef("pk"), is_paused=True)),
        nodes_in_all=_count_of(nodes),
        queued=_count_of(waiting),
        devices_=_counted_devices(),
    )


def _counted_devices() -> AsJson:
    """Of a pool, how many there are by model, simulated and in service, and how many are held."""
    usable = Q(node__state=NodeState.READY, health=DeviceHealth.HEALTHY)
    # Not by a join: a device has a row for every job it ever served.
    held = Exists(Allocation.objects.filter(device=OuterRef("pk"), released_at__isnull=True))
    kinds = ("model", "is_simulated", "usable_")
    rows = (
        Device.objects.filter(node__pool=OuterRef("pk"), is_present=True, in_service=True)
        .exclude(node__state=NodeState.RETIRED)
        .order_by()
        .annotate(usable_=ExpressionWrapper(usable, output_field=BooleanField()))
        .values_list(*kinds)
        # Held is counted and not grouped by, for which SQLite looks twice.
        .annotate(devices_=Count("pk"), held_=Count("pk", filter=held))
    )
    return as_rows(rows, *kinds, "devices_", "held_")


def _count_of(rows: QuerySet[Any]) -> Coalesce:
    """How many rows there are of those that name one pool."""
    counted = rows.order_by().values("pool").annotate(count=Count("pk")).values("count")
    return Coalesce(Subquery(counted), 0)


SUMMED = AskedOnce(_summed)
