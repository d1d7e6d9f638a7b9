"""The working copy of free capacity that is charged as jobs are admitted. It only shrinks."""

from __future__ import annotations

import numpy as np

from scheduler.engine.snapshot import NONE, Flags, Floats, Ints, Request, Snapshot, floats, ints

UNLIMITED = np.iinfo(np.int64).max


class Board:
    """Free devices, cpus and memory by node row, and who holds the rest until when.

    `free_gpus[model]` counts free devices of a model by node; `free_gpus[NONE]`, the last row,
    counts those of any model. `spare_*` is what jobs may take of a node beside a reservation.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        nodes, devices = snapshot.nodes, snapshot.devices
        self.snapshot = snapshot
        self._models = len(snapshot.models)
        offered = devices.is_healthy & nodes.takes_work[devices.node]
        self.is_offered: Flags = offered
        self.is_free: Flags = offered & (devices.holder == NONE)
        self.present_gpus = self.count(np.ones_like(offered))
        self.offered_gpus = self.count(offered)
        self.is_all_in_order = bool(offered.all()) and bool(nodes.takes_work.all())
        self.free_gpus = self.count(self.is_free)
        self.cpus_free: Ints = nodes.cpus_free.copy()
        self.memory_free_mib: Ints = nodes.memory_free_mib.copy()
        size = len(nodes.id)
        self.in_pool: Flags = nodes.pool == np.arange(len(snapshot.pools))[:, None]
        self.reserved_pools: set[int] = set()
        self.spare_gpus: Ints = np.full(size, UNLIMITED)
        self.spare_cpus: Ints = np.full(size, UNLIMITED)
        self.spare_memory_mib: Ints = np.full(size, UNLIMITED)
        self.holder: Ints = devices.holder.copy()
        self._begin: Ints = ints(np.searchsorted(devices.node, np.arange(size)))
        self._end: Ints = ints(np.searchsorted(devices.node, np.arange(size), side="right"))
        self.link_groups = int(devices.link_group.max(initial=-1)) + 1
        self.node_of_link_group: Ints = np.zeros(self.link_groups, dtype=np.int64)
        self.node_of_link_group[devices.link_group] = devices.node
        self._planned: list[tuple[int, int, int, float]] = []

    def count(self, chosen: Flags) -> Ints:
        """Chosen devices by model (last row: any) and node."""
        devices, size = self.snapshot.devices, len(self.snapshot.nodes.id)
        flat = devices.model[chosen] * size + devices.node[chosen]
        table = np.bincount(flat, minlength=self._models * size)
        by_model = table.reshape(self._models, size)
        return np.vstack([by_model, by_model.sum(axis=0, dtype=np.int64)[None, :]])

    def devices_of(self, node: int) -> slice:
        """The device rows of a node."""
        return slice(int(self._begin[node]), int(self._end[node]))

    def fits(self, request: Request, *, past_reservations: bool = False) -> Flags:
        """Nodes whose free capacity holds one share of the request now."""
        fit = (
            (self.free_gpus[request.model] >= request.gpus)
            & (self.cpus_free >= request.cpus)
            & (self.memory_free_mib >= request.memory_mib)
            & self.in_pool[request.pool]
        )
        if not past_reservations and request.pool in self.reserved_pools:
            fit &= (
                (self.spare_gpus >= request.gpus)
                & (self.spare_cpus >= request.cpus)
                & (self.spare_memory_mib >= request.memory_mib)
            )
        return np.asarray(fit)

    def charge(
        self, node: int, device_rows: Ints, request: Request, until_s: float, *, uses_spare: bool
    ) -> None:
        """Take devices, cpus and memory of a node until `until_s`.

        `uses_spare` is false for a job that is gone before the reservations begin.
        """
        devices = self.snapshot.devices
        self.is_free[device_rows] = False
        self.holder[device_rows] = len(self.snapshot.held.job) + len(self._planned)
        self._planned.append((node, request.cpus, request.memory_mib, until_s))
        by_model = np.bincount(devices.model[device_rows], minlength=self._models)
        self.free_gpus[:NONE, node] -= by_model
        self.free_gpus[NONE, node] -= len(device_rows)
        self.cpus_free[node] -= request.cpus
        self.memory_free_mib[node] -= request.memory_mib
        if uses_spare and self.spare_gpus[node] != UNLIMITED:
            self.spare_gpus[node] -= len(device_rows)
            self.spare_cpus[node] -= request.cpus
            self.spare_memory_mib[node] -= request.memory_mib

    def holders(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Node, cpus, memory and end of everything held, planned starts included; by holder row."""
        held = self.snapshot.held
        planned = list(zip(*self._planned, strict=True)) or [(), (), (), ()]
        return (
            np.concatenate([held.node, ints(planned[0])]),
            np.concatenate([held.cpus, ints(planned[1])]),
            np.concatenate([held.memory_mib, ints(planned[2])]),
            np.concatenate([held.until_s, floats(planned[3])]),
        )
