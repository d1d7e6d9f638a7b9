"""What a job's row repeats of its spec, so that a cycle reads numbers, not documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.money import steps_of
from scheduler.spec import JobSpec
from scheduler.spec.values import WHOLE_MILLI, is_mig_profile
from scheduler.states import latest_start

# What a job has that asks for numbers of nodes, GPUs, cpus and memory alone.
_PLAIN: Mapping[str, Any] = {
    "node_sizes": [],
    "gpu_milli": WHOLE_MILLI,
    "gpu_memory_mib": 0,
    "gpu_models": [],
    "share_cards": False,
    "exclusive": False,
    "scratch_mib": 0,
    "licences": {},
    "constraints": [],
    "exclude_nodes": [],
    "datasets": None,
    "topology_level": "",
    "booking": "",
    "pool_choice": None,
}

# Of a job that names none.
DEFAULT_POOL = "default"


def finish_columns(finish_by: datetime | None, policy: str, limit_s: int) -> dict[str, Any]:
    """The moment by which a job has to be finished, and the latest start that leaves its limit."""
    start_by = latest_start(finish_by, policy, limit_s) if finish_by else None
    return {"finish_by": finish_by, "start_by": start_by}


def pools_of(spec: JobSpec) -> list[str]:
    """The names of the pools that it may start in, the most wanted first."""
    return list(dict.fromkeys((spec.pool or DEFAULT_POOL, *spec.other_pools)))


def columns_of(spec: JobSpec) -> dict[str, Any]:
    """The fields of `Job` that follow from its spec alone; sizes in MiB, durations in seconds."""
    topology, pools = spec.topology, pools_of(spec)
    columns = {
        "name": spec.name,
        "spec": spec.document(),
        "tier": spec.tier_number,
        "nodes": int(spec.nodes),
        "nodes_min": spec.nodes.least,
        "node_sizes": list(spec.node_sizes),
        "gpus_per_node": spec.gpus_per_node,
        "gpu_milli": spec.gpu_milli,
        "gpu_memory_mib": spec.gpu_memory,
        "gpu_model": spec.gpu_model,
        "gpu_models": list(spec.gpu_models),
        "fallback_after_s": spec.fallback_after,
        "isolation": spec.isolation,
        "share_cards": spec.share_cards,
        "exclusive": spec.exclusive,
        "cpus": spec.cpus,
        "memory_mib": spec.memory,
        "scratch_mib": spec.scratch,
        "licences": dict(spec.licences),
        "constraints": list(spec.constraints),
        "exclude_nodes": list(spec.exclude_nodes),
        "datasets": list(spec.datasets) or None,
        "pool_choice": pools if len(pools) > 1 else None,
        "topology_level": topology.level,
        "topology_mode": topology.mode if topology.level else "",
        "time_limit_s": spec.time_limit,
        "max_cost_steps": None if spec.max_cost is None else steps_of(spec.max_cost),
        "retries": spec.retries,
        "retry_rules": [rule.written() for rule in spec.retry_rules] or None,
        "notify": list(spec.notify) or None,
        "preemptible": spec.is_preemptible,
        "min_runtime_s": spec.min_runtime,
        "booking": spec.booking,
        "group_name": spec.group or None,
        "begin_at": spec.begin,
        **finish_columns(spec.finish_by, spec.finish_by_policy, spec.time_limit),
    }
    by_profile = any(map(is_mig_profile, (spec.gpu_model, *spec.gpu_models)))
    is_shaped = by_profile or any(columns[name] != usual for name, usual in _PLAIN.items())
    return {**columns, "is_shaped": is_shaped or spec.nodes.least < int(spec.nodes)}
