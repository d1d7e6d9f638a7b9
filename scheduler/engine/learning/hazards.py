"""How likely jobs end soon, by the GPU time they have attained: the index of the order `las`.

The *index* of a job (Gittins: J. Gittins, Bandit processes and dynamic allocation indices, JRSS B
41, 1979; for queues: Aalto, Ayesta, Righter, Queueing Systems 63, 2009) is the most chance of an
end per GPU second that running it on, up to some bound, can buy. It is high for young jobs if most
end early, and falls with every GPU second that a job survives.

The chance comes from hazards: ends over exposure in bins of GPU time, each twice as long as the
one before. A job that has not ended counts as exposure. Estimates are shrunk towards a wider one.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot.columns import Floats, Ints, floats, ints

# Bins of GPU seconds: below 600, then doubling; the last ones hold a pool for years.
EDGES: Floats = floats([0.0, *(600.0 * 2.0 ** np.arange(24))])
WIDTHS: Floats = np.diff(EDGES)
# Before anything is known: a Pareto tail of shape 2, worth so many jobs in each bin.
SHAPE, PRIOR_JOBS = 2.0, 20.0
UNKNOWN: Floats = np.full(len(WIDTHS), SHAPE * np.log(2.0))
# Neighbours fade by e over so many ranks; further away than REACH they count for nothing. What is
# known beside them counts as so many jobs.
FADE_RANKS, REACH, OWN_PRIOR_JOBS = 5.0, 20, 0.5


def bin_of(service: Floats) -> Ints:
    """In which bin so many GPU seconds lie."""
    # The tiny step keeps a job that has just reached an edge from hanging on below it.
    found = np.searchsorted(EDGES, service * (1 + 1e-9), side="right") - 1
    return ints(np.clip(found, 0, len(WIDTHS) - 1))


def passed(service: Floats) -> Floats:
    """By job and bin: how much of the bin the service has passed, from 0 to 1."""
    return np.asarray(np.clip((service[:, None] - EDGES[:-1]) / WIDTHS, 0.0, 1.0))


def shrunk(ends: Floats, exposure: Floats, prior: Floats) -> Floats:
    """Ends per bin passed, of these jobs together with `PRIOR_JOBS` that follow the prior."""
    return floats((ends.sum(axis=0) + PRIOR_JOBS * prior) / (exposure.sum(axis=0) + PRIOR_JOBS))


def index_of(service: Floats, hazard: Floats) -> Floats:
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
