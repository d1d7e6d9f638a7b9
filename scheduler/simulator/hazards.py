"""How long jobs are likely to run still, learnt from how long others ran: nobody declares anything.

The *index* of a job (Gittins: J. Gittins, Bandit processes and dynamic allocation indices, JRSS B
41, 1979; for queues: Aalto, Ayesta, Righter, Queueing Systems 63, 2009) is the most chance of an
end per GPU second that running it on, up to some bound, can buy. It is high for young jobs if most
end early, and falls with every GPU second that a job survives.

The chance comes from hazards: ends over exposure in bins of GPU time, each twice as long as the
one before. A job that has not ended counts as exposure. Three estimates, each the prior of the
next: all jobs of the pool; those with as many GPUs; and of these the *neighbours*, submitted just
before and after, because people submit batches of similar jobs.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import Flags, Floats, Ints, floats, ints

# Bins of GPU seconds: below 600, then doubling; the last ones hold a pool for years.
EDGES: Floats = floats([0.0, *(600.0 * 2.0 ** np.arange(24))])
WIDTHS: Floats = np.diff(EDGES)
# Before anything is known: a Pareto tail of shape 2, worth so many jobs in each bin.
SHAPE, PRIOR_JOBS = 2.0, 20.0
# Neighbours fade by e over so many ranks; further away than REACH they count for nothing.
FADE_RANKS, REACH, OWN_PRIOR_JOBS = 5.0, 20, 0.5
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
        self._exposure[row] = _passed(service)[0]
        self._ends[row, _bin_of(service)[0]] = 1.0
        self._news += 1

    def forecast_s(self, rows: Ints, attained_s: Floats) -> Floats:
        """By job that is not over: the run time that its index stands for, in seconds.

        `rows` are all such jobs. Remaining time is to the ordering what 1 / (index x GPUs) is.
        """
        service = attained_s * self._gpus[rows]
        if self._news >= ENDS_PER_REFRESH:
            self._exposure[rows] = _passed(service)
            self._refresh(rows)
            self._news = 0
        return floats(1.0 / (_index(service, self._hazard[rows]) * self._gpus[rows]))

    def _refresh(self, active: Ints) -> None:
        """Work out the hazards of these jobs anew."""
        arrived = self._has_arrived
        prior = np.full(len(WIDTHS), SHAPE * np.log(2.0))
        of_all = _shrunk(self._ends[arrived], self._exposure[arrived], prior)
        for count, peers in self._peers.items():
            mine = active[self._gpus[active] == count]
            if not len(mine):
                continue
            known = peers[arrived[peers]]
            of_count = _shrunk(self._ends[known], self._exposure[known], of_all)
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
    return floats((EDGES[_bin_of(service) + 1] - service) / gpus)


def _bin_of(service: Floats) -> Ints:
    # The tiny step keeps a job that has just reached an edge from hanging on below it.
    found = np.searchsorted(EDGES, service * (1 + 1e-9), side="right") - 1
    return ints(np.clip(found, 0, len(WIDTHS) - 1))


def _passed(service: Floats) -> Floats:
    """By job and bin: how much of the bin the service has passed, from 0 to 1."""
    return np.asarray(np.clip((service[:, None] - EDGES[:-1]) / WIDTHS, 0.0, 1.0))


def _shrunk(ends: Floats, exposure: Floats, prior: Floats) -> Floats:
    """Ends per bin passed, of these jobs together with `PRIOR_JOBS` that follow the prior."""
    return floats((ends.sum(axis=0) + PRIOR_JOBS * prior) / (exposure.sum(axis=0) + PRIOR_JOBS))


def _index(service: Floats, hazard: Floats) -> Floats:
    """The best ratio of the chance to end over the GPU time it takes, over all bins to stop at.

    Within a bin ends come at a constant rate.
    """
    left = np.clip(EDGES[1:] - np.maximum(service[:, None], EDGES[:-1]), 0.0, WIDTHS)
    rate = np.maximum(hazard, 1e-12) / WIDTHS
    ends_here = -np.expm1(-rate * left)
    survives = np.cumprod(1.0 - ends_here, axis=1)
    reaches = np.concatenate([np.ones((len(service), 1)), survives[:, :-1]], axis=1)
    chance = np.cumsum(reaches * ends_here, axis=1)
    takes = np.cumsum(reaches * ends_here / rate, axis=1)
    ratio = np.divide(chance, takes, out=np.zeros_like(chance), where=takes > 0)
    return floats(np.maximum(ratio.max(axis=1), 1e-15))
