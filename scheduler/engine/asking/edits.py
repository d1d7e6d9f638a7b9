"""Small changes to one waiting job that are worth trying, in words as people would ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.engine.asking.pricing import paid_price
from scheduler.engine.snapshot import (
    NONE,
    SPREADS,
    TOPOLOGIES,
    WHOLE_MILLI,
    Flags,
    Ints,
    Snapshot,
    ints,
)
from scheduler.states import span_words

HOUR_S = 3600
NICE_LIMITS_S = tuple(
    int(hours * HOUR_S) for hours in (168, 96, 72, 48, 24, 18, 12, 8, 6, 4, 3, 2, 1, 0.5, 0.25)
)
# So many smaller or other shapes of each kind are tried.
MOST_SHAPES = 3
# And so many other pools, where there are more: those with the most room for it now.
MOST_POOLS = 3


@dataclass(frozen=True, slots=True)
class Edit:
    """A change: the columns of `Waiting` it sets, in words as people would ask for it."""

    kind: str
    words: str
    columns: Mapping[str, int | float]


def other_changes(
    snapshot: Snapshot, row: int, elsewhere: Sequence[tuple[int, int]]
) -> Iterator[Edit]:
    """The changes worth trying beside shorter limits and smaller shapes."""
    yield from _other_models(snapshot, row)
    yield from _less_firm(snapshot, row)
    if (most := paid_price(snapshot, row)) is not None:
        yield Edit("price", "with a highest price that its budgets pay for", {"most_cost": most})
    others = [place for place in elsewhere if place[0] != snapshot.waiting.pool[row]]
    in_pools = [_in_pool(snapshot, row, pool, queue) for pool, queue in others]
    yield from _roomiest(snapshot, row, in_pools)


def _roomiest(snapshot: Snapshot, row: int, in_pools: Sequence[Edit]) -> list[Edit]:
    """Those of these changes with most of its nodes free there now, then with most at all, as many
    as are tried; in the order in which they come.

    Each is decided anyway: whole cycles for a hundred pools would take seconds.
    """
    if len(in_pools) <= MOST_POOLS:
        return list(in_pools)
    devices, nodes = snapshot.devices, snapshot.nodes
    in_order = devices.is_healthy & nodes.takes_work[devices.node]
    is_free = in_order & (devices.free_milli(snapshot.slices) == WHOLE_MILLI)
    by_room = sorted(
        range(len(in_pools)),
        key=lambda at: [
            -_nodes_with(snapshot, row, in_pools[at], of) for of in (is_free, in_order)
        ],
    )
    return [in_pools[at] for at in sorted(by_room[:MOST_POOLS])]


def _nodes_with(snapshot: Snapshot, row: int, edit: Edit, chosen: Flags) -> int:
    """On how many nodes of the other pool enough of the `chosen` devices would do, at most as many
    as are asked for."""
    waiting, devices = snapshot.waiting, snapshot.devices
    suits = snapshot.accepts()[int(edit.columns.get("model", waiting.model[row]))][devices.model]
    of_pool = snapshot.nodes.pool == edit.columns["pool"]
    count = np.bincount(devices.node[chosen & suits], minlength=len(of_pool))
    enough = of_pool & snapshot.nodes.takes_work & (count >= waiting.gpus_per_node[row])
    return min(int(enough.sum()), int(waiting.nodes[row]))


def shorter(snapshot: Snapshot, row: int, least_s: int = 1) -> Iterator[Edit]:
    """Shorter limits, the mildest first."""
    waiting = snapshot.waiting
    limit_s, left_s = int(waiting.time_limit_s[row]), float(waiting.remaining_s[row])
    for limit in [limit for limit in NICE_LIMITS_S if least_s <= limit < limit_s]:
        remaining_s = left_s - (limit_s - limit)
        if remaining_s > 0:
            words = f"with {span_words(limit)} instead of {span_words(limit_s)}"
            yield Edit("limit", words, {"time_limit_s": limit, "remaining_s": remaining_s})


def smaller(snapshot: Snapshot, row: int) -> tuple[list[Edit], list[Edit]]:
    """Fewer nodes, and fewer GPUs on each, the mildest first; a smaller share goes first."""
    waiting = snapshot.waiting
    nodes, gpus = int(waiting.nodes[row]), int(waiting.gpus_per_node[row])
    on_fewer, with_fewer = list[Edit](), list[Edit]()
    for count in [nodes >> step for step in range(1, MOST_SHAPES + 1) if nodes >> step]:
        words = f"on {count} node{'' if count == 1 else 's'} instead of {nodes}"
        # What it said about smaller sizes is void with another one.
        on_fewer.append(Edit("nodes", words, {"nodes": count, "nodes_min": 0, "sizes": NONE}))
    for count in [gpus >> step for step in range(1, MOST_SHAPES + 1) if gpus >> step]:
        words = f"with {count} GPU{'' if count == 1 else 's'} instead of {gpus}"
        words += " on each node" if nodes > 1 else ""
        with_fewer.append(Edit("gpus", words, {"gpus_per_node": count, "part_gpus": 0}))
    return on_fewer, with_fewer


def _other_models(snapshot: Snapshot, row: int) -> Iterator[Edit]:
    """Models of which the job's pool has any; none for a job that takes what comes."""
    wanted = int(snapshot.waiting.model[row])
    if wanted == NONE:
        return
    taken = snapshot.accepts()[wanted]
    there = _models_of(snapshot, int(snapshot.waiting.pool[row]))
    for model in [model for model in there.tolist() if not taken[model]][:MOST_SHAPES]:
        words = f"with {snapshot.models[model]} instead of {_asked_words(snapshot, wanted)}"
        yield Edit("model", words, {"model": model})


def _less_firm(snapshot: Snapshot, row: int) -> Iterator[Edit]:
    """Wishes for certain nodes taken back: their place, to be alone there, what they must have."""
    waiting = snapshot.waiting
    level, preferred = TOPOLOGIES[int(waiting.topology[row])], SPREADS.index("preferred")
    if level and waiting.spread[row] != preferred:
        firm = SPREADS[int(waiting.spread[row])]
        words = f"with one {level} preferred instead of {firm}"
        yield Edit("place", words, {"spread": preferred})
    if waiting.is_exclusive[row]:
        yield Edit("alone", "with others on its nodes", {"is_exclusive": False})
    mask = int(waiting.mask[row])
    if mask != NONE:
        asked = snapshot.mask_names[mask] if mask < len(snapshot.mask_names) else "certain nodes"
        yield Edit("labels", f"without asking for {asked}", {"mask": NONE})


def _in_pool(snapshot: Snapshot, row: int, pool: int, queue: int) -> Edit:
    """In another pool; where that has no card as is asked for, with the model of most that it has.

    A node of the old pool to stay away from means nothing in the new one.
    """
    waiting, columns = snapshot.waiting, {"pool": pool, "queue": queue, "avoid_node": NONE}
    words = f"in pool {snapshot.pools[pool]} instead of {snapshot.pools[int(waiting.pool[row])]}"
    wanted, there = int(waiting.model[row]), _models_of(snapshot, pool)
    if wanted != NONE and len(there) and not snapshot.accepts()[wanted][there].any():
        columns["model"] = int(there[0])
        other, asked = snapshot.models[int(there[0])], _asked_words(snapshot, wanted)
        words = f"with {other} instead of {asked}, {words}"
    return Edit("pool", words, columns)


def _models_of(snapshot: Snapshot, pool: int) -> Ints:
    """Models of the devices in a pool, the most frequent first."""
    devices = snapshot.devices
    here = snapshot.nodes.pool[devices.node] == pool
    counts = np.bincount(devices.model[here], minlength=len(snapshot.models))
    return ints([model for model in np.argsort(-counts, kind="stable").tolist() if counts[model]])


def _asked_words(snapshot: Snapshot, wanted: int) -> str:
    taken = np.flatnonzero(snapshot.accepts()[wanted]).tolist()
    return " or ".join(snapshot.models[model] for model in taken)
