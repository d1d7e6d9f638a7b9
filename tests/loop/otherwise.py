"""A job that waits asks for something else: where it could go, and how it asks."""

from __future__ import annotations

from scheduler.loop.changing import change_job, read_change
from scheduler.models import Allocation, Device, Node, SchedulerLease
from scheduler.services.nodes import create_pool
from scheduler.services.placing import start_attempts
from tests import scenes
from tests.scenes import NOON, at, submit

OTHER = "NVIDIA A100-SXM4-80GB"
REQUEST = (
    "pool_id", "queue_id", "nodes", "nodes_min", "node_sizes", "gpus_per_node", "gpu_model",
    "gpu_models", "fallback_after_s", "is_shaped", "spec", "time_limit_s", "tier",
)  # fmt: skip


def two_pools(root):
    """Two nodes of two H100 in the default pool, two of four A100 in another."""
    made = scenes.build_cluster(root, nodes=2, gpus=2)
    other = scenes.Cluster(root, create_pool(actor=root, name="spare"), [])
    for name in ("m1", "m2"):
        scenes.add_node(other, name, 4)
    Device.objects.filter(node__pool=other.pool).update(model=OTHER)
    return made


def change(actor, job, *, now=None, version=None, **asked):
    return change_job(
        actor=actor, job=job, change=read_change(**asked), version=version, now=now or at(60)
    )


def request_of(job):
    job.refresh_from_db()
    return {name: getattr(job, name) for name in REQUEST}


def fill(actor, project, *names, now=NOON, tier="normal", gpus=0):
    """A job on all GPUs of each of these nodes, or on so many."""
    token = SchedulerLease.objects.get().token
    for node in Node.objects.filter(name__in=names).select_related("pool"):
        count = gpus or Device.objects.filter(node=node).count()
        asked = {"gpus_per_node": count, "pool": node.pool.name, "tier": tier}
        job = submit(actor, project, now=now, **asked)
        assert start_attempts([scenes.planned(job, node)], lease_token=token, now=now) == [job.pk]


def places_of(job):
    held = Allocation.objects.filter(placement__attempt__job=job, released_at=None)
    return sorted(held.values_list("placement__node__name", flat=True))
