"""A full cluster with a long queue as the engine sees it, for the workloads beside this file.

Columns only, no database. Everything is drawn with one seed, so that a figure can be had again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    Accounts,
    Devices,
    Floats,
    Held,
    Ints,
    Limits,
    Nodes,
    Running,
    Snapshot,
    Waiting,
    flags,
    floats,
    ints,
)
from scheduler.states import NodeState, Tier

NOW_S = 1_800_000_000.0
HOUR_S = 3600
CPUS_PER_GPU, MIB_PER_GPU = 12, 122_880
# GPUs of the jobs that run side by side on one node of eight, and how often; 0 is part of a gang.
MIXES = ((0,), (8,), (4, 4), (4, 2, 2), (2, 2, 2, 2), (4, 2, 1, 1), (1,) * 8)
MIX_SHARES = (0.25, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1)
PEOPLE_PER_TEAM, USED_GPU_S = 10, 1e6
# What waits: nodes, GPUs on each, and how often.
SHAPES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8), (16, 8))
SHAPE_SHARES = (0.35, 0.15, 0.15, 0.2, 0.08, 0.05, 0.02)


@dataclass(frozen=True, slots=True)
class Sizes:
    """`running` is the part of the nodes in use; `pending` jobs wait in `queues`.

    `accounts`: so many people and teams whose jobs they are, 0 for nobody's; `quotas`: the teams
    are guaranteed equal parts of the cluster.
    """

    nodes: int
    gpus_per_node: int
    running: float
    pending: int
    queues: int
    seed: int = 42
    accounts: int = 0
    quotas: bool = False


def crowded(sizes: Sizes) -> Snapshot:
    """One pool of equal nodes, the used ones full; nobody who waits outranks one who runs."""
    draws = np.random.default_rng(sizes.seed)
    shares = _shares(draws, sizes)
    snapshot = Snapshot(
        now_s=NOW_S,
        pools=("pool",),
        queues=tuple(f"queue-{number}" for number in range(sizes.queues)),
        queue_is_paused=flags(np.zeros(sizes.queues)),
        models=("H100",),
        nodes=_nodes(sizes, shares),
        devices=_devices(sizes, shares),
        held=Held.of(
            job=shares.job,
            node=shares.node,
            cpus=shares.gpus * CPUS_PER_GPU,
            memory_mib=shares.gpus * MIB_PER_GPU,
            until_s=NOW_S + shares.limit_s[shares.job - 1] - shares.ran_s[shares.job - 1],
        ),
        waiting=_waiting(draws, sizes, first_id=len(shares.ran_s) + 1),
        running=_running(shares, sizes),
    )
    return _owned(snapshot, sizes) if sizes.accounts > 1 else snapshot


def _owned(snapshot: Snapshot, sizes: Sizes) -> Snapshot:
    """Ten to a team, and each has used something; jobs are dealt out at random."""
    draws = np.random.default_rng(sizes.seed + 1)
    teams = -(-sizes.accounts // PEOPLE_PER_TEAM)
    people = max(1, sizes.accounts - teams)
    first = 1 + teams
    parents = [NONE] + [0] * teams + [1 + person % teams for person in range(people)]
    used_gpu_s = draws.exponential(USED_GPU_S, size=people)
    waiting, held, running = snapshot.waiting, snapshot.held, snapshot.running
    assert running is not None
    owner = draws.integers(first, first + people, size=int(waiting.id.max()) + 1)
    part = sizes.nodes * sizes.gpus_per_node // teams
    has_quota = sizes.quotas and part > 0
    return replace(
        snapshot,
        accounts=Accounts.of(
            parent=ints(parents), used_gpu_s=floats([*[0.0] * first, *used_gpu_s])
        ),
        account_names=tuple(f"account-{row}" for row in range(len(parents))),
        limits=Limits.of(
            account=ints(range(1, first) if has_quota else []),
            guaranteed=ints([part] * (teams if has_quota else 0)),
        ),
        waiting=replace(waiting, account=ints(owner[waiting.id])),
        held=replace(held, account=ints(owner[held.job])),
        running=replace(running, jobs=replace(running.jobs, account=ints(owner[running.jobs.id]))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What is held, by share: job (numbers from 1), node row, GPUs. The rest is by job."""

    job: Ints
    node: Ints
    gpus: Ints
    limit_s: Ints
    ran_s: Ints
    tier: Ints
    checkpoint_age_s: Floats


def _shares(draws: np.random.Generator, sizes: Sizes) -> Shares:
    """Node after node filled with one of the mixes; nodes of gangs are put together in fours."""
    rows: list[tuple[int, int, int]] = []
    job, gang, gang_left = 0, 0, 0
    mixes = draws.choice(len(MIXES), p=MIX_SHARES, size=round(sizes.nodes * sizes.running))
    for node, mix in enumerate(mixes.tolist()):
        for gpus in MIXES[mix] if sizes.gpus_per_node == 8 else (sizes.gpus_per_node,):
            if gpus:
                job += 1
                rows.append((job, node, gpus))
                continue
            if not gang_left:
                job += 1
                gang, gang_left = job, 4
            gang_left -= 1
            rows.append((gang, node, sizes.gpus_per_node))
    owner, node_of, gpus_of = list(zip(*rows, strict=True)) or [()] * 3
    limit_s = draws.integers(1, 49, size=job) * HOUR_S
    ran_s = (limit_s * draws.uniform(0.02, 0.98, size=job)).astype(np.int64)
    reports = draws.random(job) < 0.6
    age_s = np.minimum(ran_s, draws.integers(30, 2 * HOUR_S, size=job))
    return Shares(
        job=ints(owner),
        node=ints(node_of),
        gpus=ints(gpus_of),
        limit_s=ints(limit_s),
        ran_s=ints(ran_s),
        tier=ints(draws.choice([Tier.NORMAL, Tier.URGENT], p=[0.8, 0.2], size=job)),
        checkpoint_age_s=floats(np.where(reports, age_s, np.inf)),
    )


def _nodes(sizes: Sizes, shares: Shares) -> Nodes:
    size, gpus = sizes.nodes, sizes.gpus_per_node
    used = np.bincount(shares.node, weights=shares.gpus, minlength=size).astype(np.int64)
    cpus, mib = gpus * CPUS_PER_GPU, gpus * MIB_PER_GPU
    return Nodes.of(
        id=ints(np.arange(1, size + 1)),
        pool=ints(np.zeros(size)),
        state=ints(np.full(size, NODE_STATES.index(NodeState.READY))),
        takes_work=flags(np.ones(size)),
        cpus_total=ints(np.full(size, cpus)),
        cpus_free=ints(cpus - used * CPUS_PER_GPU),
        memory_total_mib=ints(np.full(size, mib)),
        memory_free_mib=ints(mib - used * MIB_PER_GPU),
    )


def _devices(sizes: Sizes, shares: Shares) -> Devices:
    """The shares of a node lie on its devices one after the other."""
    size, gpus = sizes.nodes * sizes.gpus_per_node, sizes.gpus_per_node
    holder = np.full(size, NONE)
    before = np.cumsum(shares.gpus) - shares.gpus
    on_node = np.bincount(shares.node, weights=shares.gpus, minlength=sizes.nodes)
    first = (np.cumsum(on_node) - on_node).astype(np.int64)
    begin = shares.node * gpus + before - first[shares.node]
    rows = np.repeat(begin, shares.gpus) + np.arange(len(np.repeat(begin, shares.gpus)))
    rows -= np.repeat(before, shares.gpus)
    holder[rows] = np.repeat(np.arange(len(shares.gpus)), shares.gpus)
    node = np.repeat(np.arange(sizes.nodes), gpus)
    return Devices.of(
        id=ints(np.arange(1, size + 1)),
        node=ints(node),
        model=ints(np.zeros(size)),
        link_group=ints(node),
        is_healthy=flags(np.ones(size)),
        holder=ints(holder),
        is_shareable=flags(np.zeros(size)),
    )


def _waiting(draws: np.random.Generator, sizes: Sizes, first_id: int) -> Waiting:
    """Jobs of all shapes, submitted over the last day."""
    size = sizes.pending
    nodes, gpus = np.array(SHAPES)[draws.choice(len(SHAPES), p=SHAPE_SHARES, size=size)].T
    gpus = np.minimum(gpus, sizes.gpus_per_node)
    limit_s = draws.integers(1, 49, size=size) * HOUR_S
    return Waiting.of(
        id=ints(np.arange(first_id, first_id + size)),
        pool=ints(np.zeros(size)),
        queue=ints(draws.integers(0, sizes.queues, size=size)),
        tier=ints(draws.choice([Tier.EXPLORATORY, Tier.NORMAL], p=[0.2, 0.8], size=size)),
        queued_at_s=floats(NOW_S - np.sort(draws.uniform(0, 24 * HOUR_S, size=size))[::-1]),
        nodes=ints(nodes),
        gpus_per_node=ints(gpus),
        cpus=ints(gpus * draws.choice([4, 8, 12], size=size)),
        memory_mib=ints(gpus * draws.choice([32_768, 65_536, 98_304, 122_880], size=size)),
        time_limit_s=ints(limit_s),
        remaining_s=floats(limit_s),
    )


def _running(shares: Shares, sizes: Sizes) -> Running:
    """What runs, as it would wait if it were stopped."""
    size = len(shares.ran_s)
    nodes = np.bincount(shares.job - 1, minlength=size)
    gpus = np.zeros(size, dtype=np.int64)
    gpus[shares.job - 1] = shares.gpus
    zeros = np.zeros(size)
    jobs = Waiting.of(
        id=ints(np.arange(1, size + 1)),
        pool=ints(zeros),
        queue=ints(np.arange(size) % sizes.queues),
        tier=shares.tier,
        queued_at_s=floats(NOW_S - shares.ran_s),
        nodes=ints(nodes),
        gpus_per_node=gpus,
        cpus=ints(gpus * CPUS_PER_GPU),
        memory_mib=ints(gpus * MIB_PER_GPU),
        time_limit_s=shares.limit_s,
        remaining_s=floats(shares.limit_s - shares.ran_s),
        attained_s=floats(shares.ran_s),
    )
    return Running.of_jobs(
        jobs,
        restart_cost_s=floats(np.full(size, 60.0)),
        ran_s=floats(shares.ran_s),
        checkpoint_age_s=floats(shares.checkpoint_age_s),
    )
