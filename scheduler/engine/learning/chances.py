"""The index of jobs that are known by their kind: project, program and GPUs.

Three estimates, each the prior of the next, as in `scheduler/simulator/hazards.py`, which has bare
traces: all jobs; those on as many GPUs; and of these the *neighbours*, jobs of the same kind that
were submitted just before and after, because people submit batches of similar jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from scheduler.engine.learning.hazards import (
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
from scheduler.engine.learning.run_times import Kind
from scheduler.engine.snapshot.columns import Floats, Ints, floats, ints

# A job's number, which grows with the time of submit, its kind, and how long it ran.
Run: TypeAlias = tuple[int, Kind, float]

_STEPS: Ints = np.arange(1, REACH + 1)
_FADE: Floats = np.exp(-_STEPS / FADE_RANKS)


@dataclass(frozen=True, slots=True, eq=False)
class _Peers:
    """Jobs of one kind in the order of submit; by job and bin, ends and exposure."""

    job: Ints
    ends: Floats
    exposure: Floats

    def near(self, jobs: Ints) -> tuple[Floats, Floats]:
        """By job that asks and bin, ends and exposure of its neighbours, the nearest most.

        A job is not its own neighbour: that it has survived is in its attained service already.
        """
        place = np.searchsorted(self.job, jobs)
        is_own = self.job[np.minimum(place, len(self.job) - 1)] == jobs
        asked, of_job = np.unique(place * 2 + is_own, return_inverse=True)
        place, is_own = asked // 2, asked % 2
        before, after = place[:, None] - _STEPS, (place + is_own)[:, None] + _STEPS - 1
        near = np.concatenate([before, after], axis=1)
        is_there = (near >= 0) & (near < len(self.job))
        fade = np.tile(_FADE, 2) * is_there
        rows = np.where(is_there, near, 0)
        ends = np.einsum("jn,jnb->jb", fade, self.ends[rows])
        exposure = np.einsum("jn,jnb->jb", fade, self.exposure[rows])
        return ends[of_job], exposure[of_job]


class EndChances:
    """Learnt from `ended` jobs, and from `live` ones that have run so long without an end."""

    def __init__(self, ended: Iterable[Run] = (), live: Iterable[Run] = ()) -> None:
        known = [(*run, True) for run in ended] + [(*run, False) for run in live]
        known.sort(key=lambda run: run[0])
        service = floats([run_s * _gpus(kind) for _, kind, run_s, _ in known])
        exposure, ends = passed(service), np.zeros((len(known), len(WIDTHS)))
        is_over = [row for row, run in enumerate(known) if run[3]]
        ends[is_over, bin_of(service)[is_over]] = 1.0
        of_kind: dict[Kind, list[int]] = {}
        of_count: dict[int, list[int]] = {}
        for row, (_, kind, _, _) in enumerate(known):
            of_kind.setdefault(kind, []).append(row)
            of_count.setdefault(_gpus(kind), []).append(row)
        job = ints([run[0] for run in known])
        self._of_all = shrunk(ends, exposure, UNKNOWN)
        self._of_count = {
            gpus: shrunk(ends[rows], exposure[rows], self._of_all)
            for gpus, rows in of_count.items()
        }
        self._peers = {
            kind: _Peers(job[rows], ends[rows], exposure[rows]) for kind, rows in of_kind.items()
        }

    def ahead_s(self, jobs: Ints, kinds: Sequence[Kind], attained_s: Floats) -> Floats:
        """By job that has run so long: the run time that its index stands for, in seconds.

        Remaining time is to the ordering what 1 / (index x GPUs) is.
        """
        rows_of: dict[Kind, list[int]] = {}
        for row, kind in enumerate(kinds):
            rows_of.setdefault(kind, []).append(row)
        found = floats(np.zeros(len(jobs)))
        for kind, rows in rows_of.items():
            gpus = _gpus(kind)
            hazard = self._hazard(kind, ints(jobs[rows]))
            found[rows] = 1.0 / (index_of(floats(attained_s[rows] * gpus), hazard) * gpus)
        return found

    def _hazard(self, kind: Kind, jobs: Ints) -> Floats:
        """By job and bin."""
        prior = self._of_count.get(_gpus(kind), self._of_all)
        peers = self._peers.get(kind)
        if peers is None:
            return np.tile(prior, (len(jobs), 1))
        ends, exposure = peers.near(jobs)
        return np.asarray((ends + OWN_PRIOR_JOBS * prior) / (exposure + OWN_PRIOR_JOBS))


def _gpus(kind: Kind) -> int:
    """What a second of the job counts; who asks for no whole GPU counts as one."""
    return max(1, kind[2])
