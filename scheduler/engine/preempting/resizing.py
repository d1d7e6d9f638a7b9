"""Elastic jobs that run: who gives nodes back before anybody is stopped, and who gets more.

A resize is a restart with another number of nodes: the job goes on from its last checkpoint.

* Shrinking. A job that may stop others of lower tiers asks first whether elastic ones among them
  can give back enough nodes down to their least, the least work lost for each node first. They are
  shrunk no further than needed, and only if that makes room for it.
* Growing. Where nobody waits for a pool, its elastic jobs may take free nodes. Work spreads evenly,
  so of `left_s` on `n` nodes the `m - n` new ones would do `left_s * n * (m - n) / m` node seconds;
  all `m` nodes spend the restart and the work lost since the last checkpoint again. A job grows to
  the allowed size that gains most in GPU seconds, if that is more than it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.placement import is_capable
from scheduler.engine.plan import Resize
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.stakes import lost_work_s, may_stop, stop_price
from scheduler.engine.shaping.nodes import take_nodes
from scheduler.engine.shaping.sizes import least_size, sizes_of
from scheduler.engine.snapshot import (
    NONE,
    Classes,
    Flags,
    Floats,
    Ints,
    Request,
    Running,
    classes_of,
    flags,
    floats,
    ints,
)


class Elastic:
    """The running jobs of a board that can be resized, by row of `Running`.

    `size` is the number of nodes each has now, `nodes` their rows.
    """

    def __init__(self, board: Board, running: Running, policy: Policy) -> None:
        self.board = board
        self.jobs = running.jobs
        self.classes: Classes = classes_of(running.jobs)
        self.again_s: Floats = floats(lost_work_s(running) + running.restart_cost_s)
        self._price = stop_price(running)
        held = board.snapshot.held
        row_of = {job: row for row, job in enumerate(running.jobs.id.tolist())}
        self._row_of_held: Ints = ints([row_of.get(job, NONE) for job in held.job.tolist()])
        mine = self._row_of_held[self._row_of_held != NONE]
        self.size: Ints = ints(np.bincount(mine, minlength=len(row_of)))
        self.is_open: Flags = flags(
            may_stop(running, policy) & (running.jobs.nodes_min > 0) & (self.size > 0)
        )

    def request(self, row: int) -> Request:
        """What the job would ask for if it waited."""
        return self.classes.requests[int(self.classes.of_job[row])]

    def nodes(self, row: int) -> Ints:
        """The nodes it has, by row."""
        return ints(self.board.snapshot.held.node[self._row_of_held == row])

    def shrink_for(self, job: int, request: Request, tier: int) -> list[Resize]:
        """Whose nodes make room for the waiting job, which is of this tier; none if not enough."""
        board, snapshot = self.board, self.board.snapshot
        fit = board.fits(request) & ~board.keeping.nodes()
        missing = least_size(snapshot, request) - int(np.count_nonzero(fit))
        able = is_capable(board, request, board.offered_gpus) & snapshot.nodes.takes_work
        able &= ~board.keeping.nodes()
        offers = []
        for row in np.flatnonzero(self.is_open & (self.jobs.tier < tier)).tolist():
            least = least_size(snapshot, self.request(row))
            nodes = self.nodes(row)
            # A node it shares, or that is too small for the newcomer, makes no room.
            useful = int(np.count_nonzero(able[nodes] & (board.residents[nodes] == 1)))
            spare = min(int(self.size[row]) - least, useful)
            if spare > 0:
                offers.append((float(self._price[row]) / spare, row, spare))
        found = []
        for _, row, spare in sorted(offers):
            if missing <= 0:
                break
            size = self._largest(row, int(self.size[row]) - min(spare, missing))
            missing -= int(self.size[row]) - size
            found.append(self._resize(row, size, beneficiary=job))
        if missing > 0 or not found:
            return []
        self.is_open[[self._row_of(resize) for resize in found]] = False
        return found

    def grow(self, crowded: Flags) -> list[Resize]:
        """Who gets more nodes; `crowded` says by pool whether anybody waits for it."""
        board, snapshot = self.board, self.board.snapshot
        found: list[Resize] = []
        taken = np.zeros(len(snapshot.nodes.id), dtype=np.bool_)
        for row in np.flatnonzero(self.is_open & ~crowded[self.jobs.pool]).tolist():
            request, mine = self.request(row), self.nodes(row)
            free = board.fits(request) & ~taken & ~board.keeping.nodes()
            free[mine] = True
            rows = ints(np.flatnonzero(free))
            best = self._best_size(row, request, rows)
            if best is None:
                continue
            gain, nodes = best
            taken[np.setdiff1d(nodes, mine)] = True
            found.append(self._resize(row, len(nodes), gain_gpu_s=gain))
        return found

    def _best_size(self, row: int, request: Request, rows: Ints) -> tuple[float, Ints] | None:
        """The net gain and the nodes of the size that pays most, None if no larger one pays."""
        now, left_s = int(self.size[row]), float(self.jobs.remaining_s[row])
        best: tuple[float, Ints] | None = None
        for size in sizes_of(self.board.snapshot, request, len(rows)):
            if size <= now or not np.isfinite(left_s):
                break
            gain_s, cost_s = gain_and_cost(left_s, now, size, float(self.again_s[row]))
            net = (gain_s - cost_s) * max(1, request.gpus)
            if net > (best[0] if best else 0.0):
                sized = replace(request, nodes=size, nodes_min=0, sizes=NONE)
                nodes = take_nodes(self.board.snapshot, sized, rows, lambda _, among: among)
                best = (net, nodes) if nodes is not None else best
        return best

    def _largest(self, row: int, most: int) -> int:
        return sizes_of(self.board.snapshot, self.request(row), most)[0]

    def _row_of(self, resize: Resize) -> int:
        return int(np.flatnonzero(self.jobs.id == resize.job)[0])

    def _resize(
        self, row: int, size: int, *, beneficiary: int | None = None, gain_gpu_s: float = 0.0
    ) -> Resize:
        again_s = float(self.again_s[row]) * size * max(1, self.request(row).gpus)
        return Resize(
            job=int(self.jobs.id[row]),
            nodes=size,
            was=int(self.size[row]),
            beneficiary=beneficiary,
            gain_gpu_s=round(gain_gpu_s),
            cost_gpu_s=round(again_s),
        )


def grow_jobs(board: Board, policy: Policy, crowded: Flags, leaving: Sequence[int]) -> list[Resize]:
    """Who gets more nodes on the board as it is, if the policy resizes; `crowded` by pool.

    The jobs `leaving` are stopped or shrunk in this cycle already.
    """
    running = board.snapshot.running
    if not policy.resizes or running is None or not len(running.jobs):
        return []
    elastic = Elastic(board, running, policy)
    elastic.is_open &= ~np.isin(elastic.jobs.id, leaving)
    return elastic.grow(crowded)


def gain_and_cost(left_s: float, now: int, size: int, again_s: float) -> tuple[float, float]:
    """Node seconds that the added nodes take over, and those that all of them do again."""
    return left_s * now * (size - now) / size, again_s * size
