"""Who has how much of the cluster, and who is next because of that.

An account's share is its *dominant* share: the largest of its parts of all GPUs, CPUs and memory
(Ghodsi et al., Dominant Resource Fairness, NSDI'11, section 4). Its past use counts with what it
holds: decayed by a half-life, it is told in GPUs, as many as would have left just that if they had
been held for ever. The share over the weight is the account's score, the least goes first. Scores
are compared level by level from the top of the tree, so that people do not gain by spreading
work over more of their team's accounts (the idea of Slurm's fair tree; ours compares scores, not
ranks, and goes on to the next level where they are equal).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from scheduler.engine.grouping import group_rows
from scheduler.engine.ordering import kind_number, kinds_of, orders_of
from scheduler.engine.plan import Start
from scheduler.engine.policy import Order, Policy
from scheduler.engine.sharing.tree import Tree, held_milli, sharers_of
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    Snapshot,
    flags,
    floats,
    ints,
    stable_order,
)

Scores: TypeAlias = tuple[float, ...]
# GPUs in millionths, CPUs, MiB.
Units: TypeAlias = tuple[int, int, int]

# GPUs are counted in millionths, so that past use adds up exactly in whatever order it comes.
MICRO_PER_GPU = 1_000_000
_MICRO_PER_MILLI = 1000


class Shares:
    """What each account has taken of GPUs (millionths), CPUs and memory, those below it included.

    It only grows while jobs are admitted.
    """

    def __init__(self, snapshot: Snapshot, half_life_s: float) -> None:
        accounts = snapshot.accounts
        self.tree = Tree(accounts.parent)
        totals = _totals(snapshot)
        per_unit: Floats = np.divide(1.0, totals, out=np.zeros(3), where=totals > 0)
        self._parts: list[float] = per_unit.tolist()
        self._weight: list[float] = accounts.weight.tolist()
        past_gpus = accounts.used_gpu_s * (math.log(2) / half_life_s)
        table = _held(snapshot)
        table[:, 0] += np.rint(past_gpus * MICRO_PER_GPU).astype(np.int64)
        self.taken: list[list[int]] = self.tree.roll_up(table).tolist()
        # Scores as they are: most turns pass without a start.
        self._score: dict[int, float] = {}

    def scores(self, sharer: int) -> Scores:
        """Of the account and those above it, the root's first; empty for no account."""
        return tuple(self.score(row) for row in reversed(self.tree.way_up(sharer)))

    def charge(self, sharer: int, need: Units) -> None:
        """Count a job that starts."""
        for row in self.tree.way_up(sharer):
            taken = self.taken[row]
            for axis in range(3):
                taken[axis] += need[axis]
            self._score.pop(row, None)

    def score(self, row: int) -> float:
        """Dominant share over weight, the least is next."""
        found = self._score.get(row)
        if found is None:
            gpus, cpus, memory = self.taken[row]
            per_gpu, per_cpu, per_mib = self._parts
            found = max(gpus * per_gpu, cpus * per_cpu, memory * per_mib) / self._weight[row]
            self._score[row] = found
        return found

    def line_up(self, group: Ints, sharers: Ints, needs: Ints, by_age: Flags) -> Ints:
        """The order in which jobs would start if all of them fitted, as positions.

        The jobs come in order of `group` (equal groups compete), then of age; `needs` has a row of
        units for each; those `by_age` ask for no share. Equals: start the first job of the account
        with the least scores, charge it, and so on. The score a job would find at its turn is that
        of what comes before it in its account, so accounts are merged level by level, the deepest
        first (start tags of fair queueing: Goyal, Vin, Cheng, SIGCOMM'96, section 2).
        """
        levels = self._levels(sharers)
        # By group, then by the tags so far, the last first, then by age: sorts here are stable.
        line = ints(np.arange(len(sharers)))
        for level in range(levels.shape[1] - 1, -1, -1):
            account = levels[line, level]
            by_account = stable_order(account)
            tag = floats(np.empty(len(line)))
            tag[by_account] = self._tags(account[by_account], needs[line[by_account]])
            tag[by_age[line]] = -1.0
            line = line[np.argsort(tag, kind="stable")]
            line = line[stable_order(group[line])]
        return line

    def _levels(self, sharers: Ints) -> Ints:
        """By job and level from the top, the account above it or itself; -1 below it."""
        first, of_job = group_rows([sharers])
        ways = [self.tree.way_up(row)[::-1] for row in sharers[first].tolist()]
        depth = max((len(way) for way in ways), default=0)
        table = np.array([[*way, *[NONE] * (depth - len(way))] for way in ways], dtype=np.int64)
        return ints(table).reshape(len(ways), depth)[of_job]

    def _tags(self, account: Ints, needs: Ints) -> Floats:
        """For jobs sorted by account: the account's score when those before have started."""
        first = np.flatnonzero(np.diff(account, prepend=NONE - 1))
        begin = np.repeat(first, np.diff(np.append(first, len(account))))
        taken = np.array([*self.taken, [0, 0, 0]], dtype=np.int64)
        tags = np.zeros(len(account))
        # Axis by axis equals the maximum of rows of three, which takes several times as long.
        for axis, per_unit in enumerate(self._parts):
            need = needs[:, axis]
            before = np.cumsum(need) - need
            before += taken[:, axis][account] - before[begin]
            np.maximum(tags, before * per_unit, out=tags)
        tags /= np.array([*self._weight, 1.0])[account]
        return floats(np.where(account == NONE, -1.0, tags))


class LineUps:
    """Turns that were worked out, for whoever decides many times about one cluster.

    Kept by all that they follow from but the accounts, which have to be the same each time.
    """

    def __init__(self) -> None:
        self._known: dict[object, Ints] = {}

    def line_up(
        self, shares: Shares, group: Ints, sharers: Ints, needs: Ints, by_age: Flags
    ) -> Ints:
        """Equals `shares.line_up`."""
        columns = tuple(column.tobytes("A") for column in (group, sharers, needs, by_age))
        key = (*columns, tuple(map(tuple, shares.taken)))
        if key not in self._known:
            self._known[key] = shares.line_up(group, sharers, needs, by_age)
        return self._known[key]


class Line:
    """The waiting jobs in `order`, and whose turn it is as jobs are admitted.

    A *place* is a position in `order`. `group`: by place, which tier it is in and who of that goes
    first by age alone, or has a pool of another order, as a number that grows; turns compare within
    a group. `shares`: None if no pool asks for them. `known`: turns of earlier decisions.
    """

    def __init__(
        self, snapshot: Snapshot, policy: Policy, order: Ints, known: LineUps | None = None
    ) -> None:
        self.snapshot = snapshot
        self._known = known
        self.order = order
        self.sharers = sharers_of(snapshot.waiting)
        has_shares = Order.FAIR in orders_of(snapshot, policy) and len(snapshot.accounts) > 0
        self.shares = Shares(snapshot, policy.half_life_s) if has_shares else None
        self.group, self._is_by_age = self._groups(policy)

    def turn_takers(self, places: Ints) -> Ints:
        """By place, whose share says when its turn is; -1 where age alone does."""
        if self.shares is None:
            return ints(np.full(len(places), NONE))
        return ints(np.where(self._is_by_age[places], NONE, self.sharers[self.order[places]]))

    def charge(self, sharer: int, need: Units) -> None:
        """Count a job that starts."""
        if self.shares is not None:
            self.shares.charge(sharer, need)

    def line_up(self, places: Ints) -> Ints:
        """These places, which come in order, by the turns their jobs would have from now on."""
        if self.shares is None or not len(places):
            return places
        needs = needs_of(self.snapshot, self.order[places])
        whose, by_age = self.sharers[self.order[places]], self._is_by_age[places]
        group = self.group[places]
        if self._known is None:
            return ints(places[self.shares.line_up(group, whose, needs, by_age)])
        return ints(places[self._known.line_up(self.shares, group, whose, needs, by_age)])

    def _groups(self, policy: Policy) -> tuple[Ints, Flags]:
        """By place: the group, and whether its share is not asked for: it waited too long, or its
        pool has another order."""
        tier = self.snapshot.waiting.tier[self.order]
        kind = kinds_of(self.snapshot, policy)[self.order]
        changes = (np.diff(tier) != 0) | (np.diff(kind) != 0)
        groups = np.cumsum(np.concatenate([[0], changes])[: len(tier)])
        return ints(groups), flags(kind != kind_number(Order.FAIR))


def _totals(snapshot: Snapshot) -> Floats:
    nodes = snapshot.nodes
    gpus = len(snapshot.devices.id) * MICRO_PER_GPU
    return floats([gpus, nodes.cpus_total.sum(), nodes.memory_total_mib.sum()])


def _held(snapshot: Snapshot) -> Ints:
    """By account: what it holds itself, in units."""
    held = snapshot.held
    owner = sharers_of(held)
    table = np.zeros((len(snapshot.accounts), 3), dtype=np.int64)
    holder, _, milli = held_milli(snapshot)
    for axis, rows, units in (
        (0, owner[holder], milli * _MICRO_PER_MILLI),
        (1, owner, held.cpus),
        (2, owner, held.memory_mib),
    ):
        known = rows != NONE
        np.add.at(table[:, axis], rows[known], units[known])
    return table


def units_of(start: Start, weight: int = WHOLE_MILLI) -> Units:
    """What a start takes; `weight` is what its devices are of a card, in milli-GPU."""
    placed = start.placements
    milli = sum(len(one.devices) * one.gpu_milli for one in placed) * weight // WHOLE_MILLI
    cpus, memory_mib = sum(one.cpus for one in placed), sum(one.memory_mib for one in placed)
    return milli * _MICRO_PER_MILLI, cpus, memory_mib


def needs_of(snapshot: Snapshot, rows: Ints) -> Ints:
    """What these waiting rows ask for, with all the nodes they can use."""
    jobs = snapshot.waiting
    # Of few columns of many rows; `take` would copy all.
    nodes, part_gpus = jobs.nodes[rows], jobs.part_gpus[rows]
    shares = nodes + (part_gpus > 0)
    gpus = (nodes * jobs.gpus_per_node[rows] + part_gpus) * jobs.gpu_milli[rows] * _MICRO_PER_MILLI
    if snapshot.model_milli is not None:
        gpus = gpus * snapshot.weights()[jobs.model[rows]] // WHOLE_MILLI
    # By columns, as they are read.
    return np.stack([gpus, shares * jobs.cpus[rows], shares * jobs.memory_mib[rows]]).T
