"""How long a job may wait before it goes first: as long as a fair plain scheduler would let it.

Shortest-first starves wide and long jobs in an overload. A fixed limit helps in one cluster and
hurts in the next, so the limit is learnt: a *shadow* of the pool runs the same jobs first come
first served with backfilling, and shows how long waits get under a scheduler that starves nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import Flags, Floats, Ints, flags, floats, ints
from scheduler.simulator.pools import Pools
from scheduler.simulator.replay import Replay
from scheduler.simulator.workload import Workload
from scheduler.simulator.world import World

SHADOW_POLICY = Policy(order=Order.FIFO, head_patience_s=0, backfill_slack_s=0)
# Waits may get so much longer than in the shadow: less lets long jobs block the short ones early.
PATIENCE = 1.35
# Early in an overload the shadow has not waited long yet, but its backlog says that it will.
BACKLOG_WEIGHT = 1.25


class _Longest:
    """Limit = PATIENCE x max(W, BACKLOG_WEIGHT x B): W is the longest wait in the shadow so far, B
    the largest backlog so far, work still ahead over all GPUs.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._wait_s = 0.0
        self._backlog_s = 0.0

    def note_waits(self, shadow: World, now_s: float) -> None:
        """How long jobs have waited in the shadow by now."""
        waits_s = shadow.waited_s + np.where(shadow.is_waiting, now_s - shadow.since_s, 0.0)
        self._wait_s = max(self._wait_s, float(waits_s.max(initial=0.0)))

    def note_backlog(self, world: World, is_counted: Flags) -> None:
        """What is ahead now of the jobs that are counted."""
        ahead = ints([*np.flatnonzero(world.is_waiting), *world.running])
        ahead = ints(ahead[is_counted[ahead]])
        work_s = world.expected_s(ahead) * world.workload.gpus[ahead]
        self._backlog_s = max(self._backlog_s, float(work_s.sum()) / self._capacity)

    def limit_s(self) -> float:
        return PATIENCE * max(self._wait_s, BACKLOG_WEIGHT * self._backlog_s)


class Guard:
    """The limit of one pool, to be given to `Replay` as its `limit`.

    The shadow knows the declared run times, and the true one of a job that has ended.
    """

    def __init__(self, workload: Workload, nodes: int, rows: Ints | None = None) -> None:
        """`rows`: which jobs of the workload are those of the pool, all if None."""
        mine = ints(np.arange(len(workload))) if rows is None else rows
        own = replace(workload.take(mine), pool=None)
        self._shadow = Replay(replace(own, run_s=own.declared_s), nodes, SHADOW_POLICY)
        self._row_of = {row: number for number, row in enumerate(mine.tolist())}
        self._is_mine: Flags = flags(np.zeros(len(workload)))
        self._is_mine[mine] = True
        self._longest = _Longest(int(self._shadow.world.pools.gpus[0]))

    def __call__(self, world: World, ended: Sequence[int]) -> float:
        """The limit in seconds at this moment; these jobs have just ended."""
        for row in ended:
            if row in self._row_of:
                self._shadow.correct(self._row_of[row], float(world.workload.run_s[row]))
        while self._shadow.next_s() <= world.now_s:
            self._shadow.step()
        self._longest.note_waits(self._shadow.world, world.now_s)
        self._longest.note_backlog(world, self._is_mine)
        return self._longest.limit_s()


def limit_of_past(workload: Workload, nodes: int, until_s: float) -> float:
    """The limit of one pool at `until_s` as its past tells it: the jobs that came, in the shadow
    alone, with the backlog that they make there. Run times are true where jobs have ended, and
    declared for the others. For who cannot follow a shadow event by event.
    """
    shadow = Replay(workload, nodes, SHADOW_POLICY)
    longest = _Longest(int(shadow.world.pools.gpus[0]))
    every: Flags = flags(np.ones(len(workload)))
    while shadow.next_s() <= until_s:
        shadow.step()
        longest.note_waits(shadow.world, shadow.world.now_s)
        longest.note_backlog(shadow.world, every)
    longest.note_waits(shadow.world, until_s)
    return longest.limit_s()


class Guards:
    """The limits of several pools, by pool; those whose policy starves nobody have none."""

    def __init__(self, workload: Workload, pools: Pools, policy: Policy) -> None:
        self._of: dict[int, Guard] = {}
        for row, name in enumerate(pools.names):
            mine = ints(np.flatnonzero(workload.pools() == row))
            if len(mine) and _starves(policy.of(name), workload.declared_s[mine]):
                sizes = replace(workload, gpus_per_node=pools.gpus_per_node[row])
                self._of[row] = Guard(sizes, pools.nodes[row], mine)
        self._limit_s: Floats = floats(np.full(len(pools), np.inf))

    def __call__(self, world: World, ended: Sequence[int]) -> Floats:
        """The limits in seconds at this moment; these jobs have just ended."""
        for row, guard in self._of.items():
            self._limit_s[row] = guard(world, ended)
        return self._limit_s.copy()


def _starves(policy: Policy, declared_s: Floats) -> bool:
    """Who waits may wait for ever, and a shadow can be told how long all run."""
    is_short_first = policy.order is Order.SHORTEST and not policy.preempts
    return is_short_first and bool(np.isfinite(declared_s).all())
