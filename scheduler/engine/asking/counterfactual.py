"""What would help: small changes to one job, each tried by deciding the whole cycle with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.asking.pricing import paid_price
from scheduler.engine.cycle import Known, plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
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
# A start is called sooner if the forecast gains a tenth of the wait, a minute at least.
LEAST_GAIN, LEAST_GAIN_S = 0.1, 60


@dataclass(frozen=True, slots=True)
class Edit:
    """A change: the columns of `Waiting` it sets, in words as people would ask for it."""

    kind: str
    words: str
    columns: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class Option:
    """A change that was tried and helps. `start_s` is now if `starts_now`, else the p50 forecast.

    `kind` is limit, gpus, nodes, model, place, alone, labels, price or pool; `fields` the values it
    has then.
    """

    kind: str
    words: str
    starts_now: bool
    start_s: float
    fields: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class Answer:
    """`start_s`: the p50 forecast as the job is, None for none. `tried`: cycles decided for it."""

    starts_now: bool
    start_s: float | None
    options: tuple[Option, ...]
    tried: int


def what_if(
    snapshot: Snapshot,
    policy: Policy,
    job: int,
    elsewhere: Sequence[tuple[int, int]] = (),
    *,
    plan: Plan | None = None,
    known: Known | None = None,
    least_limit_s: int = 1,
) -> Answer | None:
    """The mildest change of each kind with which the waiting job starts now, else a soon one.

    `elsewhere`: rows of other pools and of their queues that the job may go to. `plan`: what
    `plan_cycle` says of the snapshot, if that is known, and `known` what was found out by it. No
    limit below `least_limit_s` is tried. None if no such job waits. Nothing is claimed that
    `plan_cycle` has not said of the changed job among all the others; those that start now come
    first, then by start.
    """
    rows = np.flatnonzero(snapshot.waiting.id == job)
    if not len(rows):
        return None
    row = int(rows[0])
    known = known or Known()
    as_is = _start_s(plan or plan_cycle(snapshot, policy, known), job, snapshot.now_s)
    if as_is == snapshot.now_s:
        return Answer(True, snapshot.now_s, (), 1)
    trial = _Trial(snapshot, policy, row, as_is, known)
    trial.search(list(_shorter(snapshot, row, least_limit_s)))
    for edit in _edits(snapshot, row, elsewhere):
        if edit.kind not in trial.best or not trial.best[edit.kind].starts_now:
            trial.try_out(edit)
    options = sorted(trial.best.values(), key=lambda option: (option.start_s, option.kind))
    start_s = as_is if np.isfinite(as_is) else None
    return Answer(False, start_s, tuple(options), trial.tried + 1)


class _Trial:
    """Decides with one change after the other; `best` has what helps most of each kind."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, row: int, as_is_s: float, known: Known
    ) -> None:
        self.best: dict[str, Option] = {}
        self.tried = 0
        self._snapshot = snapshot
        self._policy = policy
        self._row = row
        self._as_is_s = as_is_s
        # No change is one of the cluster, and most leave everybody's turn as it is.
        self._known = known

    def try_out(self, edit: Edit) -> bool:
        """Whether the job starts now with it."""
        self.tried += 1
        now_s, job = self._snapshot.now_s, int(self._snapshot.waiting.id[self._row])
        plan = plan_cycle(_changed(self._snapshot, self._row, edit), self._policy, self._known)
        start_s = _start_s(plan, job, now_s)
        known = self.best.get(edit.kind)
        is_best = known is None or start_s < known.start_s or start_s == now_s
        if is_best and _is_sooner(start_s, self._as_is_s, now_s):
            now = start_s == now_s
            self.best[edit.kind] = Option(edit.kind, edit.words, now, start_s, edit.columns)
        return start_s == now_s

    def search(self, edits: Sequence[Edit]) -> None:
        """The mildest of a row of ever stronger changes that starts it now, by halving.

        What halving finds was tried; only that nothing milder would do is taken on trust.
        """
        low, high = 0, len(edits)
        while low < high:
            middle = (low + high) // 2
            if self.try_out(edits[middle]):
                high = middle
            else:
                low = middle + 1


def _start_s(plan: Plan, job: int, now_s: float) -> float:
    """Now if the plan starts it, else the p50 forecast; infinite if there is none."""
    if any(start.job == job for start in plan.starts):
        return now_s
    at = np.flatnonzero(plan.waits.job == job)
    p50_s = plan.waits.forecast.of(int(at[0]))[0] if len(at) else np.nan
    return float("inf") if np.isnan(p50_s) else max(p50_s, now_s + 1)


def _is_sooner(start_s: float, as_is_s: float, now_s: float) -> bool:
    if start_s == now_s or not np.isfinite(as_is_s):
        return bool(np.isfinite(start_s))
    gain_s = max(LEAST_GAIN_S, LEAST_GAIN * (as_is_s - now_s))
    return start_s <= as_is_s - gain_s


def _changed(snapshot: Snapshot, row: int, edit: Edit) -> Snapshot:
    columns = {}
    for name, value in edit.columns.items():
        columns[name] = getattr(snapshot.waiting, name).copy()
        columns[name][row] = value
    return replace(snapshot, waiting=replace(snapshot.waiting, **columns))


def _edits(snapshot: Snapshot, row: int, elsewhere: Sequence[tuple[int, int]]) -> Iterator[Edit]:
    """The changes worth trying beside shorter limits, of each kind the mildest first."""
    yield from _smaller(snapshot, row)
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


def _shorter(snapshot: Snapshot, row: int, least_s: int = 1) -> Iterator[Edit]:
    waiting = snapshot.waiting
    limit_s, left_s = int(waiting.time_limit_s[row]), float(waiting.remaining_s[row])
    for limit in [limit for limit in NICE_LIMITS_S if least_s <= limit < limit_s]:
        remaining_s = left_s - (limit_s - limit)
        if remaining_s > 0:
            words = f"with {span_words(limit)} instead of {span_words(limit_s)}"
            yield Edit("limit", words, {"time_limit_s": limit, "remaining_s": remaining_s})


def _smaller(snapshot: Snapshot, row: int) -> Iterator[Edit]:
    """Fewer nodes, or fewer GPUs on each; a smaller share goes first."""
    waiting = snapshot.waiting
    nodes, gpus = int(waiting.nodes[row]), int(waiting.gpus_per_node[row])
    fewer_nodes = [nodes >> step for step in range(1, MOST_SHAPES + 1) if nodes >> step]
    for count in fewer_nodes:
        words = f"on {count} node{'' if count == 1 else 's'} instead of {nodes}"
        # What it said about smaller sizes is void with another one.
        yield Edit("nodes", words, {"nodes": count, "nodes_min": 0, "sizes": NONE})
    fewer_gpus = [gpus >> step for step in range(1, MOST_SHAPES + 1) if gpus >> step]
    for count in fewer_gpus:
        words = f"with {count} GPU{'' if count == 1 else 's'} instead of {gpus}"
        words += " on each node" if nodes > 1 else ""
        yield Edit("gpus", words, {"gpus_per_node": count, "part_gpus": 0})


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
