"""The nodes of a cluster: those of a pool are equal, until something happens to one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from scheduler.engine.snapshot import NODE_STATES, Nodes, flags, ints
from scheduler.simulator.pools import Pools
from scheduler.states import NodeState


class Happening(StrEnum):
    """`lose`: its jobs lose what they did and wait again. `drain`: what runs on it may end, nothing
    new starts. `restore`: it takes work again.
    """

    LOSE = "lose"
    DRAIN = "drain"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A happening at a node (row in its pool, from 0) in seconds of the trace; `pool` may be left
    out where there is one.
    """

    at_s: float
    what: Happening
    node: int
    pool: str = ""


def parse_event(text: str) -> ClusterEvent:
    """Such as "lose:3@3600": node 3, an hour into the trace; of several pools "lose:a/3@3600".

    Raises ValueError with the remedy.
    """
    what, _, rest = text.partition(":")
    place, _, at_s = rest.rpartition("@")
    pool, _, node = place.rpartition("/")
    event: ClusterEvent | None
    try:
        event = ClusterEvent(float(at_s), Happening(what), int(node), pool)
    except ValueError:
        event = None
    if event is None or not math.isfinite(event.at_s):
        known = ", ".join(Happening)
        raise ValueError(
            f"{text!r} is no event of a node; write one of {known} as in lose:3@3600, and of "
            "several pools as in lose:POOL/3@3600"
        )
    return event


def in_order(events: Iterable[ClusterEvent], pools: Pools) -> tuple[ClusterEvent, ...]:
    """By time. Raises ValueError for a pool or node that the cluster does not have."""
    ordered = tuple(sorted(events, key=lambda event: event.at_s))
    for event in ordered:
        nodes = pools.nodes[pools.row(event.pool)]
        if not 0 <= event.node < nodes:
            raise ValueError(f"node {event.node} is none of the {nodes} nodes, counted from 0")
    return ordered


_STATES = {
    Happening.LOSE: NodeState.LOST,
    Happening.DRAIN: NodeState.DRAINING,
    Happening.RESTORE: NodeState.READY,
}


def equal_nodes(pools: Pools) -> Nodes:
    """Ready nodes; cpus and memory do not matter."""
    pool = pools.of_node
    count = len(pool)
    zeros = ints(np.zeros(count))
    return Nodes.of(
        id=ints(np.arange(1, count + 1)),
        pool=pool,
        state=ints(np.full(count, NODE_STATES.index(NodeState.READY))),
        takes_work=flags(np.ones(count)),
        cpus_total=zeros,
        cpus_free=zeros,
        memory_total_mib=zeros,
        memory_free_mib=zeros,
    )


def changed_nodes(nodes: Nodes, row: int, what: Happening) -> Nodes:
    """The nodes after something has happened to one of them."""
    state, takes_work = nodes.state.copy(), nodes.takes_work.copy()
    state[row] = NODE_STATES.index(_STATES[what])
    takes_work[row] = what is Happening.RESTORE
    return replace(nodes, state=state, takes_work=takes_work)
