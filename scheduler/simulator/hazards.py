"""How long jobs of a trace are likely to run still: nobody declares anything, nor has a name.

The index and its hazards are those of `scheduler/engine/learning/hazards.py`. Three estimates, each
the prior of the next: all jobs of the pool; those with as many GPUs; and of these the *neighbours*,
submitted just before and after, because people submit batches of similar jobs.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.learning.hazards import (
    EDGES,
    FADE_RANKS,
    OWN_PRIOR_JOBS,
    REACH,
    UNKNOWN,
    WIDTHS,
    bin_of,
    index_of,
    passed,
    shrunk,
)
from scheduler.engine.snapshot import Flags, Floats, Ints, floats, ints

# A job is not its own neighbour: that it has survived so far is in its attained service already.
_STEPS: Ints = np.delete(np.arange(-REACH, REACH + 1), REACH)
_FADE: Floats = np.exp(-np.abs(_STEPS) / FADE_RANKS)
# Ends after which the hazards are worked out again; arrivals always do it.
ENDS_PER_REFRESH = 3


class Hazards:
    """What is learnt about the jobs (rows) of one pool, in the order of submit."""

    def __init__(self, gpus: Ints) -> None:
        size, bins = len(gpus), len(WIDTHS)
        self._gpus = gpus
        self._has_arrived: Flags = np.zeros(size, dtype=np.bool_)
        self._is_over: Flags = np.zeros(size, dtype=np.bool_)
        self._exposure: Floats = np.zeros((size, bins))
        self._ends: Floats = np.zeros((size, bins))
        self._hazard: Floats = np.zeros((size, bins))
        self._news = 0
        self._peers = {int(count): ints(np.flatnonzero(gpus == count)) for count in np.unique(gpus)}
        self._rank: Ints = np.zeros(size, dtype=np.int64)
        for rows in self._peers.values():
            self._rank[rows] = np.arange(len(rows))

    def arrive(self, row: int) -> None:
        """The job is submitted."""
        self._has_arrived[row] = True
        self._news = ENDS_PER_REFRESH

    def end(self, row: int, attained_s: float) -> None:
        """The job has ended after so many seconds of running."""
        self._is_over[row] = True
        service = floats([attained_s * self._gpus[row]])
        self._exposure[row] = passed(service)[0]
        self._ends[row, bin_of(service)[0]] = 1.0
        self._news += 1

    def forecast_s(self, rows: Ints, attained_s: Floats) -> Floats:
        """By job that is not over: the run time that its index stands for, in seconds.

        `rows` are all such jobs. Remaining time is to the ordering what 1 / (index x GPUs) is.
        """
        service = attained_s * self._gpus[rows]
        if self._news >= ENDS_PER_REFRESH:
            self._exposure[rows] = passed(service)
            self._refresh(rows)
            self._news = 0
        return floats(1.0 / (index_of(service, self._hazard[rows]) * self._gpus[rows]))

    def _refresh(self, active: Ints) -> None:
        """Work out the hazards of these jobs anew."""
        arrived = self._has_arrived
        of_all = shrunk(self._ends[arrived], self._exposure[arrived], UNKNOWN)
        for count, peers in self._peers.items():
            mine = active[self._gpus[active] == count]
            if not len(mine):
                continue
            known = peers[arrived[peers]]
            of_count = shrunk(self._ends[known], self._exposure[known], of_all)
            near = self._rank[mine][:, None] + _STEPS
            # Ranks are those of submit, so the peers that have arrived are the first ones.
            is_there = (near >= 0) & (near < len(known))
            fade = _FADE * is_there
            neighbours = peers[np.where(is_there, near, 0)]
            ends = np.einsum("jn,jnb->jb", fade, self._ends[neighbours])
            exposure = np.einsum("jn,jnb->jb", fade, self._exposure[neighbours])
            self._hazard[mine] = (ends + OWN_PRIOR_JOBS * of_count) / (exposure + OWN_PRIOR_JOBS)


class HazardsByPool:
    """What is learnt in each pool on its own; rows are those of all jobs in the order of submit."""

    def __init__(self, gpus: Ints, pool: Ints) -> None:
        pools = int(pool.max(initial=0)) + 1
        self._pool = pool
        rows = [ints(np.flatnonzero(pool == one)) for one in range(pools)]
        self._own = [Hazards(gpus[mine]) for mine in rows]
        self._row: Ints = np.zeros(len(gpus), dtype=np.int64)
        for mine in rows:
            self._row[mine] = np.arange(len(mine))

    def arrive(self, row: int) -> None:
        """The job is submitted."""
        self._own[self._pool[row]].arrive(int(self._row[row]))

    def end(self, row: int, attained_s: float) -> None:
        """The job has ended after so many seconds of running."""
        self._own[self._pool[row]].end(int(self._row[row]), attained_s)

    def forecast_s(self, rows: Ints, attained_s: Floats) -> Floats:
        """As `Hazards.forecast_s`, of jobs of any pools."""
        if len(self._own) == 1:
            return self._own[0].forecast_s(rows, attained_s)
        found = floats(np.zeros(len(rows)))
        for pool, own in enumerate(self._own):
            mine = self._pool[rows] == pool
            found[mine] = own.forecast_s(self._row[rows[mine]], attained_s[mine])
        return found


def next_bin_s(attained_s: Floats, gpus: Ints) -> Floats:
    """By job: how long it runs until it enters the next bin and its index falls."""
    service = attained_s * gpus
    return floats((EDGES[bin_of(service) + 1] - service) / gpus)
