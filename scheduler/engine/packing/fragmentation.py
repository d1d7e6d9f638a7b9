"""The published measure of fragmentation: free GPU capacity that a typical request cannot use."""

from __future__ import annotations

import numpy as np

from scheduler.engine.packing.levels import Levels
from scheduler.engine.packing.mix import Mix
from scheduler.engine.snapshot import Floats, Ints, floats


class Fragmentation:
    """Fragmentation gradient descent: place where the expected fragment grows least.

    Weng, Yang, Yu, Wang, Tang, Yang, Zhang: "Beware of Fragmentation: Scheduling GPU-Sharing
    Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, sections 3 and 4. For a request
    that a node holds, its fragment is the sum over the devices that are too small for it; for any
    other request it is all that is free. Requests for cpus alone count as any other.
    """

    def __init__(self, levels: Levels, mix: Mix) -> None:
        self._milli = levels.milli
        self._gpus, self._cpus = mix.gpus, mix.cpus.astype(np.float64)
        # Whole counts instead of shares of one, so that equal states differ by exactly nothing.
        self._count: Floats = mix.count.astype(np.float64)
        self._total = max(1.0, float(mix.count.sum()))
        first, self._shape = mix.shapes()
        serves = [levels.serves(mix.accepts[row], int(mix.gpu_milli[row])) for row in first]
        table = np.array(serves, dtype=np.float64).reshape(len(first), len(self._milli)).T
        self._large: Floats = np.ascontiguousarray(table)
        self._small: Floats = np.ascontiguousarray(self._milli[:, None] * (1 - table))

    def of(self, levels: Ints, cpus: Ints) -> Floats:
        """The expected fragment in milli-GPU of each state (`levels` by device, free `cpus`)."""
        free = self._milli[levels].sum(axis=1)
        if not len(self._count):
            return floats(np.zeros(len(levels)))
        large = self._large[levels].sum(axis=1)[:, self._shape]
        small = self._small[levels].sum(axis=1)[:, self._shape]
        holds = (large >= self._gpus) & (cpus[:, None] >= self._cpus) & (self._gpus > 0)
        return floats(np.where(holds, small, free[:, None]) @ self._count / self._total)

    def points(self, drop: Floats) -> Floats:
        """As published: the drop through a sigmoid, cut to a whole number of 0 to 100."""
        return floats(np.floor(100 / (1 + np.exp(-drop / 1000))))

    def device_points(self, drop: Floats) -> Floats:
        """What decides between devices of one node; the first of equals is taken."""
        return self.points(drop)
