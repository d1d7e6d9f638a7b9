"""How much of a node's free GPU capacity will probably go to waste: the potential of `pack`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.engine.packing.fragmentation import Fragmentation
from scheduler.engine.packing.levels import STEP, Levels
from scheduler.engine.packing.mix import Mix
from scheduler.engine.packing.share_value import share_values
from scheduler.engine.snapshot import WHOLE_MILLI, Floats, Ints, floats, ints

# Where the cluster has less than this much more CPU per GPU than all requests ask for, CPUs are
# what runs out first.
TIGHT_FROM = 0.90
SHARE_FACTOR = 10.0
# A node's CPUs feed this part of the GPUs that the mix's own proportion says: counted early.
FED_PART = 0.8
SOFT_MILLI = 400.0
# Drops that differ by less than a step are equal, and equal nodes are filled in order.
POINT_MILLI = 12.0


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each term counts; round figures, searched on one public list and synthetic ones."""

    unfed: float
    fill: float
    fragment: float
    starved: float


SLACK = Weights(unfed=0.8, fill=0.05, fragment=0.0, starved=0.0)
TIGHT = Weights(unfed=0.0, fill=0.1, fragment=1.0, starved=0.4)


class Potential:
    """The sum, in milli-GPU of one node, of

    * what the free parts of shared devices lose against their size (`share_value.py`), ten times;
    * the GPUs that the free cpus cannot feed, as a smooth maximum;
    * what copies of the typical requests cannot fill, weighted by the GPU demand;
    * if cpus are scarce, the published expected fragment (`fragmentation.py`) and what each typical
      request's own appetite for cpus leaves unfed;
    * less the pressure on the devices' models: those that many constrained requests want are kept.

    Zero for a node without free GPUs, so that requests for cpus alone go there first. The fragment
    asks whether one more request fits; the fill asks how many.
    """

    def __init__(self, levels: Levels, mix: Mix) -> None:
        gpu = mix.only(mix.gpus > 0)
        installed = levels.installed_milli()
        cluster_cpus = float(levels.board.snapshot.nodes.cpus_total.sum())
        asked_milli = float((gpu.count * gpu.size_milli).sum())
        all_cpus = float((mix.count * mix.cpus).sum())
        gpu_cpus = float((gpu.count * gpu.cpus).sum())
        is_tight = asked_milli > 0 and (
            all_cpus * float(installed.sum()) >= TIGHT_FROM * asked_milli * cluster_cpus
        )
        self.weights = TIGHT if is_tight else SLACK
        own_ratio = cluster_cpus / max(1.0, float(installed.sum()))
        self._cpus_per_milli = FED_PART * (gpu_cpus / asked_milli if asked_milli else own_ratio)
        self._fragmentation = Fragmentation(levels, mix)
        self._milli = levels.milli
        worth = self._worths(levels, gpu, installed)
        holds = self._fill_tables(levels, gpu)
        # One look-up and one sum for all: milli, worth, then copies by shape.
        self._table: Floats = np.column_stack([self._milli, worth, holds])

    def _worths(self, levels: Levels, gpu: Mix, installed: Floats) -> Floats:
        """By level: the loss of a shared device, less the pressure on its model."""
        shares = gpu.gpu_milli < WHOLE_MILLI
        sizes, group = np.unique(gpu.gpu_milli[shares], return_inverse=True)
        counts = np.bincount(group, weights=gpu.count[shares], minlength=len(sizes))
        values = share_values(ints(sizes), ints(counts))
        lost = np.arange(STEP) - values
        shared = levels.is_shareable[levels.kind]
        kept = np.append(_pressure(gpu, installed), 0.0)[levels.model][levels.kind]
        loss = np.where(shared, lost[np.arange(len(levels.kind)) % STEP], 0.0)
        return floats(np.where(levels.kind > 0, SHARE_FACTOR * loss - kept * self._milli, 0.0))

    def _fill_tables(self, levels: Levels, gpu: Mix) -> Floats:
        """By level and shape, how many devices' parts of such a request one device holds."""
        first, self._shape = gpu.shapes()
        serves = [levels.serves(gpu.accepts[row], int(gpu.gpu_milli[row])) for row in first]
        table = np.array(serves, dtype=np.float64).reshape(len(first), len(self._milli)).T
        held = np.floor(self._milli[:, None] / gpu.gpu_milli[first])
        takes = gpu.accepts[:, np.maximum(levels.model, 0)][:, levels.kind] & (levels.kind > 0)
        self._takes: Floats = np.ascontiguousarray(takes[first].T.astype(np.float64))
        self._gpus: Floats = gpu.gpus.astype(np.float64)
        self._many = bool((gpu.gpus > 1).any())
        # A request without cpus is never limited by them.
        self._cpus: Floats = np.maximum(gpu.cpus, 1e-9)
        self._weight = gpu.weight
        self._filled: Floats = gpu.weight * gpu.size_milli
        self._fed: Floats = np.where(gpu.cpus > 0, gpu.size_milli / (FED_PART * self._cpus), 0.0)
        self._fed_anyway: Floats = np.where(gpu.cpus > 0, 0.0, np.inf)
        # Behind milli and worth.
        self._copies: Ints = self._shape + 2
        holds: Floats = table * held
        return holds

    def of(self, levels: Ints, cpus: Ints) -> Floats:
        """The potential of each state (`levels` by device, free `cpus`), in milli-GPU."""
        weights = self.weights
        sums = self._table[levels].sum(axis=1)
        free, total = sums[:, 0], sums[:, 1]
        if weights.unfed and self._cpus_per_milli > 0:
            unfed = (free - cpus / self._cpus_per_milli) / SOFT_MILLI
            total += weights.unfed * SOFT_MILLI * np.logaddexp(0.0, unfed)
        if len(self._weight):
            copies = sums[:, self._copies]
            if self._many:
                copies = np.floor(copies / self._gpus)
            copies = np.minimum(copies, np.floor(cpus[:, None] / self._cpus))
            total += weights.fill * (free - copies @ self._filled)
        if weights.fragment:
            total += weights.fragment * self._fragmentation.of(levels, cpus)
        if weights.starved and len(self._weight):
            total += weights.starved * self._starved(levels, free, cpus)
        return floats(np.where(free > 0, total, 0.0))

    def _starved(self, levels: Ints, free: Floats, cpus: Ints) -> Floats:
        """Free GPU capacity beyond what the cpus hold of each typical request, by demand."""
        takes = self._takes[levels].max(axis=1)[:, self._shape] > 0
        fed = np.where(takes, cpus[:, None] * self._fed + self._fed_anyway, 0.0)
        return floats(np.maximum(0.0, free[:, None] - fed) @ self._weight)

    def points(self, drop: Floats) -> Floats:
        """Whole steps of the drop; nodes with equal points are filled in order."""
        return floats(np.floor(drop / POINT_MILLI))

    def device_points(self, drop: Floats) -> Floats:
        """What decides between devices of one node; the first of equals is taken."""
        return drop


def _pressure(gpu: Mix, installed: Floats) -> Floats:
    """By model: demand per installed capacity of those that accept it, least one at zero.

    One is the average; a model that only unconstrained requests want comes out lowest.
    """
    if not len(gpu.count) or not len(installed):
        return floats(np.zeros(len(installed)))
    reach = gpu.accepts @ installed
    each = np.divide(gpu.weight, reach, out=np.zeros(len(reach)), where=reach > 0)
    pressure = installed.sum() * (each @ gpu.accepts)
    return floats(pressure - pressure[installed > 0].min(initial=np.inf)) * (installed > 0)
