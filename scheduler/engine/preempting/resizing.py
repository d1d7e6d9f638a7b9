"""Elastic jobs that run: who gives nodes back before anybody is stopped, and who gets more.

A resize is a restart with another number of nodes: the job goes on from its last checkpoint.

* Shrinking. A job that may stop others, of lower tiers or who run on what its account lent, asks
  first whether elastic ones among them can give back enough nodes down to their least, the least
  work lost for each node first. They are
  shrunk no further than needed, and only if that makes room for it; they go on where they were.
* Growing. Where nobody waits for a pool, its elastic jobs may take free nodes. Work spreads evenly,
  so of `left_s` on `n` nodes the `m - n` new ones would do `left_s * n * (m - n) / m` node seconds;
  all `m` nodes spend the restart and the work lost since the last checkpoint again. A job grows to
  the allowed size that gains most in GPU seconds, if that is more than it costs and its account may
  hold so much.

Who is resized has its time limit before it again. So nobody is who has nodes of which something is
kept before that is over, nor who holds licences, which could be given away before it is back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.board.kept import Kept
from scheduler.engine.placement import is_capable, pick_devices
from scheduler.engine.plan import PlannedPlacement, Resize, Stop
from scheduler.engine.policy import Policy
from scheduler.engine.preempting.stakes import lost_work_s, may_stop, stop_price
from scheduler.engine.shaping.nodes import holds_shape, take_nodes
from scheduler.engine.shaping.sizes import least_size, sizes_of
from scheduler.engine.sharing.purse import bounds_of
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
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


@dataclass(frozen=True, slots=True)
class Shrinking:
    """Who gives nodes back, the nodes (rows) where the beneficiary starts, and the rows of `Held`
    that become free for it."""

    resizes: tuple[Resize, ...]
    nodes: Ints
    leaving: Ints


class Elastic:
    """The running jobs of a board that can be resized, by row of `Running`.

    `size` is the number of nodes each has now, `nodes` their rows; `gone_s` when each is surely
    gone if it starts again now; `kept_s` when the first of what is kept of each node begins.
    """

    def __init__(self, board: Board, running: Running, policy: Policy) -> None:
        self.board = board
        self.jobs = running.jobs
        self.classes: Classes = classes_of(running.jobs)
        self.again_s: Floats = floats(lost_work_s(running) + running.restart_cost_s)
        self.price: Floats = stop_price(running)
        held = board.snapshot.held
        row_of = {job: row for row, job in enumerate(running.jobs.id.tolist())}
        self._row_of_held: Ints = ints([row_of.get(job, NONE) for job in held.job.tolist()])
        mine = self._row_of_held != NONE
        rows, size = self._row_of_held[mine], len(row_of)
        self.size: Ints = ints(np.bincount(rows, minlength=size))
        self.gone_s: Floats = floats(
            board.snapshot.now_s + running.jobs.time_limit_s + policy.backfill_slack_s
        )
        self.kept_s: Floats = floats(np.full(len(board.changes), np.inf))
        for one in board.keeping:
            self.kept_s[one.nodes] = np.minimum(self.kept_s[one.nodes], one.from_s)
        node = held.node[mine]
        fixed = (self.kept_s[node] < self.gone_s[rows]) | ~board.snapshot.nodes.takes_work[node]
        stays = np.bincount(rows[fixed], minlength=size) > 0
        is_whole = running.jobs.gpu_milli == WHOLE_MILLI
        self.is_open: Flags = flags(
            may_stop(running, policy)
            & policy.resizes
            & (running.jobs.nodes_min > 0)
            & (self.size > 0)
            & (running.jobs.licences == NONE)
            & is_whole
            & ~stays
        )

    def request(self, row: int) -> Request:
        """What the job would ask for if it waited."""
        return self.classes.requests[int(self.classes.of_job[row])]

    def nodes(self, row: int) -> Ints:
        """The nodes it has, by row."""
        return ints(self.board.snapshot.held.node[self._row_of_held == row])

    def least_of(self, row: int) -> int:
        """With how few nodes the job can run."""
        return least_size(self.board.snapshot, self.request(row))

    def shrink_for(
        self, job: int, request: Request, among: Flags, beside: Sequence[Kept]
    ) -> Shrinking | None:
        """Whose nodes, of the running rows `among`, make room for the waiting job; None if not
        enough.
        """
        board, snapshot = self.board, self.board.snapshot
        if request.part_gpus or not request.gpus:
            return None
        is_kept = board.keeping.nodes(beside)
        fit = np.flatnonzero(board.fits(request) & ~is_kept)
        missing = request.nodes - len(fit)
        able = is_capable(board, request, board.offered_gpus) & snapshot.nodes.takes_work
        # A node it shares, or that is too small for the newcomer, makes no room.
        able &= ~is_kept & (board.residents == 1)
        offers = []
        for row in np.flatnonzero(self.is_open & among).tolist():
            spare = int(self.size[row]) - self.least_of(row)
            useful = min(spare, int(np.count_nonzero(able[self.nodes(row)])))
            if useful > 0:
                offers.append((float(self.price[row]) / useful, row, useful))
        found, nodes, leaving = list[Resize](), [ints(fit)], list[Ints]()
        for _, row, useful in sorted(offers):
            if missing <= 0:
                break
            given, stays = self.give_back(row, self.nodes(row), min(useful, missing), able)
            if not len(given):
                continue
            missing -= int(np.count_nonzero(able[given]))
            nodes.append(ints(given[able[given]]))
            leaving.append(self.held_rows(row, given))
            found.append(self.resize(row, stays, beneficiary=job))
        if missing > 0 or not found:
            return None
        self.is_open[[self._row_of(resize) for resize in found]] = False
        chosen = np.sort(np.concatenate(nodes)[: request.nodes])
        return Shrinking(tuple(found), ints(chosen), np.concatenate(leaving))

    def give_back(self, row: int, nodes: Ints, wanted: int, able: Flags) -> tuple[Ints, Ints]:
        """Of its `nodes` those that a job gives back, at least so many that are `able`, and those
        it keeps.

        None if it could not go on with the others.
        """
        nodes = ints(np.sort(nodes))
        stays = self.most_of(row, ints(nodes[np.lexsort((nodes, able[nodes]))]), wanted)
        return ints(np.setdiff1d(nodes, stays)) if len(stays) else stays, stays

    def most_of(self, row: int, nodes: Ints, wanted: int = 0) -> Ints:
        """The first of these nodes that a job can go on with, all but `wanted` at most; none if it
        cannot.
        """
        request = self.request(row)
        sizes = sizes_of(self.board.snapshot, request, len(nodes) - wanted)
        if not sizes:
            return ints([])
        stays = ints(np.sort(nodes[: sizes[0]]))
        sized = replace(request, nodes=len(stays), nodes_min=0, sizes=NONE)
        return stays if holds_shape(self.board.snapshot, sized, stays) else ints([])

    def grow(self, crowded: Flags, gate: Gate) -> list[Resize]:
        """Who gets more nodes; `crowded` says by pool whether anybody waits for it."""
        board = self.board
        found: list[Resize] = []
        taken = np.zeros(len(board.snapshot.nodes.id), dtype=np.bool_)
        for row in np.flatnonzero(self.is_open & ~crowded[self.jobs.pool]).tolist():
            request, mine = self.request(row), self.nodes(row)
            free = board.fits(request) & ~taken & (self.kept_s >= self.gone_s[row])
            free[mine] = False
            rows = np.concatenate([np.sort(mine), np.flatnonzero(free)])
            best = self._best_size(row, request, ints(rows), gate)
            if best is None:
                continue
            gain, nodes = best
            account, bounds = int(self.jobs.account[row]), bounds_of(self.jobs, row)
            gate.grow(request, account, int(self.size[row]), len(nodes), bounds)
            taken[np.setdiff1d(nodes, mine)] = True
            found.append(self.resize(row, nodes, gain_gpu_s=gain))
        return found

    def _best_size(
        self, row: int, request: Request, rows: Ints, gate: Gate
    ) -> tuple[float, Ints] | None:
        """The net gain and the nodes of the size that pays most, None if no larger one pays.

        `rows`: nodes it could have, its own first; it keeps all of those.
        """
        now, left_s = int(self.size[row]), float(self.jobs.remaining_s[row])
        account, bounds = int(self.jobs.account[row]), bounds_of(self.jobs, row)
        best: tuple[float, Ints] | None = None
        for size in sizes_of(self.board.snapshot, request, len(rows)):
            if size <= now or not np.isfinite(left_s):
                break
            gain_s, cost_s = gain_and_cost(left_s, now, size, float(self.again_s[row]))
            net = (gain_s - cost_s) * max(1, request.gpus)
            if net <= (best[0] if best else 0.0):
                continue
            if not gate.may_grow(request, account, now, size, bounds):
                continue
            sized = replace(request, nodes=size, nodes_min=0, sizes=NONE)
            nodes = take_nodes(self.board.snapshot, sized, rows, lambda _, among: among)
            if nodes is not None and np.isin(rows[:now], nodes).all():
                best = (net, nodes)
        return best

    def _row_of(self, resize: Resize) -> int:
        return int(np.flatnonzero(self.jobs.id == resize.job)[0])

    def held_rows(self, row: int, nodes: Ints) -> Ints:
        """The rows of `Held` of a job on these nodes."""
        mine = np.flatnonzero(self._row_of_held == row)
        return ints(mine[np.isin(self.board.snapshot.held.node[mine], nodes)])

    def resize(
        self, row: int, nodes: Ints, *, beneficiary: int | None = None, gain_gpu_s: float = 0.0
    ) -> Resize:
        """The job goes on with these nodes."""
        size = len(nodes)
        again_s = float(self.again_s[row]) * size * max(1, self.request(row).gpus)
        return Resize(
            job=int(self.jobs.id[row]),
            nodes=size,
            was=int(self.size[row]),
            beneficiary=beneficiary,
            gain_gpu_s=round(gain_gpu_s),
            cost_gpu_s=round(again_s),
            placements=self._placements(row, ints(np.sort(nodes))),
        )

    def _placements(self, row: int, nodes: Ints) -> tuple[PlannedPlacement, ...]:
        """Where it goes on: with the same devices on nodes that it has already."""
        board, request = self.board, self.request(row)
        snapshot, own = board.snapshot, self.nodes(row)
        holder, found = self.held_rows(row, own), list[PlannedPlacement]()
        for rank, node in enumerate(nodes.tolist()):
            rows = pick_devices(board, request, node) if node not in own else None
            if rows is None:
                rows = ints(np.flatnonzero(np.isin(snapshot.devices.holder, holder)))
                rows = ints(rows[snapshot.devices.node[rows] == node])
            found.append(
                PlannedPlacement(
                    node=int(snapshot.nodes.id[node]),
                    rank=rank,
                    devices=tuple(snapshot.devices.id[rows].tolist()),
                    cpus=request.cpus,
                    memory_mib=request.memory_mib,
                )
            )
        return tuple(found)


def may_resize(running: Running, policy: Policy) -> bool:
    """Whether there is any job that could do with another number of nodes."""
    return policy.resizes and bool(running.jobs.nodes_min.any())


def grow_jobs(
    board: Board,
    running: Running | None,
    policy: Policy,
    crowded: Flags,
    leaving: Sequence[Stop | Resize],
    gate: Gate,
) -> tuple[Resize, ...]:
    """Which of those `running` get more nodes on the board as it is, if the policy resizes.

    `crowded`: by pool whether anybody waits. Who is `leaving` is stopped or shrunk in this cycle
    already; nobody grows beside it. `gate`: what accounts may hold.
    """
    if running is None or not may_resize(running, policy):
        return ()
    crowded = crowded.copy()
    crowded[running.jobs.pool[np.isin(running.jobs.id, [one.job for one in leaving])]] = True
    elastic = Elastic(board, running, policy)
    return tuple(elastic.grow(crowded, gate))


def gain_and_cost(left_s: float, now: int, size: int, again_s: float) -> tuple[float, float]:
    """Node seconds that the added nodes take over, and those that all of them do again."""
    return left_s * now * (size - now) / size, again_s * size
