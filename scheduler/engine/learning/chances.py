"""The index of jobs that are known by their kind: project, program, GPUs and template.

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
from scheduler.engine.snapshot.columns import NONE, Floats, Ints, flags, floats, ints

# A job's number, which grows with the time of submit, its kind, and how long it ran.
Run: TypeAlias = tuple[int, Kind, float]

_STEPS: Ints = np.arange(1, REACH + 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Peers:
    """Jobs of one kind in the order of submit: `every` one that came, and those of them that ran
    with their `rank` among these; by job that ran and bin, ends and exposure.
    """

    every: Ints
    rank: Ints
    ends: Floats
    exposure: Floats

    def near(self, jobs: Ints) -> tuple[Floats, Floats]:
        """By job that asks and bin, ends and exposure of its neighbours, the nearest most.

        A job is not its own neighbour: that it has survived is in its attained service already.
        """
        asked, of_job = np.unique(jobs, return_inverse=True)
        rank = np.searchsorted(self.every, asked)
        found = np.zeros((2, len(asked), len(WIDTHS)))
        place = np.searchsorted(self.rank, rank)
        steps = np.concatenate([-_STEPS, _STEPS - 1, [REACH]])
        at = place[:, None] + steps
        row = np.clip(at, 0, max(0, len(self.rank) - 1))
        far = (
            np.abs(self.rank[row] - rank[:, None]) if len(self.rank) else np.full(at.shape, np.inf)
        )
        is_there = (at == row) & (far <= REACH)
        is_own = (far == 0) & np.isin(asked, self.every)[:, None]
        fade = np.exp(-np.maximum(far, 1) / FADE_RANKS) * (is_there & ~is_own)
        # In a long queue most have nobody near that has run.
        some = np.flatnonzero(fade.any(axis=1))
        for table, known in zip(found, (self.ends, self.exposure), strict=True):
            table[some] = np.einsum("jn,jnb->jb", fade[some], known[row[some]])
        return found[0][of_job], found[1][of_job]


class EndChances:
    """Learnt from `ended` jobs, and from `live` ones that have run so long without an end, which
    may be not at all yet.
    """

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
        job, has_run = ints([run[0] for run in known]), flags(service > 0)
        self._of_all = shrunk(ends, exposure, UNKNOWN)
        self._of_count = {
            gpus: shrunk(ends[rows], exposure[rows], self._of_all)
            for gpus, rows in of_count.items()
        }
        # By job that has asked, its row of `_hazards`.
        self._row_of: dict[int, int] = {}
        self._hazards: Floats = np.zeros((0, len(WIDTHS)))
        self._peers: dict[Kind, _Peers] = {}
        for kind, members in of_kind.items():
            rank = np.flatnonzero(has_run[members])
            ran = ints(members)[rank]
            self._peers[kind] = _Peers(job[members], ints(rank), ends[ran], exposure[ran])

    def ahead_s(self, jobs: Ints, kinds: Sequence[Kind], attained_s: Floats) -> Floats:
        """By job that has run so long: the run time that its index stands for, in seconds.

        Remaining time is to the ordering what 1 / (index x GPUs) is.
        """
        self._meet(jobs, kinds)
        rows = [self._row_of[job] for job in jobs.tolist()]
        gpus = floats([_gpus(kind) for kind in kinds])
        return floats(1.0 / (index_of(floats(attained_s * gpus), self._hazards[rows]) * gpus))

    def _meet(self, jobs: Ints, kinds: Sequence[Kind]) -> None:
        """Work out the hazards of those who ask for the first time; they stay what they are."""
        news: dict[Kind, list[int]] = {}
        for job, kind in zip(jobs.tolist(), kinds, strict=True):
            if job not in self._row_of:
                self._row_of[job] = NONE
                news.setdefault(kind, []).append(job)
        tables = [self._hazards]
        first = len(self._hazards)
        for kind, asking in news.items():
            self._row_of.update(zip(asking, range(first, first + len(asking)), strict=True))
            tables.append(self._hazard(kind, ints(asking)))
            first += len(asking)
        if news:
            self._hazards = np.concatenate(tables)

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
