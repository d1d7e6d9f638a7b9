"""The index of jobs that are known by their kind: project, program and GPUs.

Three estimates, each the prior of the next, as in `scheduler/simulator/hazards.py`, which has bare
traces: all jobs; those on as many GPUs; and of these the jobs of the same kind, of which those that
came last count most, because people submit batches of similar jobs and change their programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.engine.learning.hazards import (
    FADE_RANKS,
    OWN_PRIOR_JOBS,
    UNKNOWN,
    WIDTHS,
    bin_of,
    index_of,
    passed,
    shrunk,
)
from scheduler.engine.learning.run_times import Kind
from scheduler.engine.snapshot.columns import Floats, floats


class EndChances:
    """Learnt from run times in seconds: of `ended` jobs, the latest first, and of `live` ones so
    far, which have survived that.
    """

    def __init__(
        self,
        ended: Iterable[tuple[Kind, float]] = (),
        live: Iterable[tuple[Kind, float]] = (),
    ) -> None:
        # Those that run now were submitted last.
        known = [(kind, run_s, False) for kind, run_s in live]
        known += [(kind, run_s, True) for kind, run_s in ended]
        service = floats([run_s * _gpus(kind) for kind, run_s, _ in known])
        exposure, ends = passed(service), np.zeros((len(known), len(WIDTHS)))
        is_over = [row for row, one in enumerate(known) if one[2]]
        ends[is_over, bin_of(service)[is_over]] = 1.0
        rows_of: dict[object, list[int]] = {}
        for row, (kind, _, _) in enumerate(known):
            rows_of.setdefault(kind, []).append(row)
            rows_of.setdefault(_gpus(kind), []).append(row)
        self._of_all = shrunk(ends, exposure, UNKNOWN)
        self._of_count: dict[int, Floats] = {}
        self._of_kind: dict[Kind, Floats] = {}
        for kind in {kind for kind, _, _ in known}:
            gpus = _gpus(kind)
            if gpus not in self._of_count:
                peers = rows_of[gpus]
                self._of_count[gpus] = shrunk(ends[peers], exposure[peers], self._of_all)
            own = rows_of[kind]
            fade = np.exp(-np.arange(1, len(own) + 1) / FADE_RANKS)
            self._of_kind[kind] = floats(
                (fade @ ends[own] + OWN_PRIOR_JOBS * self._of_count[gpus])
                / (fade @ exposure[own] + OWN_PRIOR_JOBS)
            )

    def ahead_s(self, kinds: Sequence[Kind], attained_s: Floats) -> Floats:
        """By job that has run so long: the run time that its index stands for, in seconds.

        Remaining time is to the ordering what 1 / (index x GPUs) is.
        """
        if not len(kinds):
            return floats([])
        gpus = floats([_gpus(kind) for kind in kinds])
        hazard = np.array([self._hazard(kind) for kind in kinds])
        return floats(1.0 / (index_of(floats(attained_s * gpus), hazard) * gpus))

    def _hazard(self, kind: Kind) -> Floats:
        found = self._of_kind.get(kind)
        return self._of_count.get(_gpus(kind), self._of_all) if found is None else found


def _gpus(kind: Kind) -> int:
    """What a second of the job counts; who asks for no whole GPU counts as one."""
    return max(1, kind[2])
