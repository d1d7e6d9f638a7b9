"""The working copy of free capacity that is charged as jobs are admitted. It only shrinks."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scheduler.engine.snapshot import (
    NONE,
    WHOLE_MILLI,
    Flags,
    Floats,
    Ints,
    Request,
    Snapshot,
    flags,
    floats,
    ints,
)

UNLIMITED = np.iinfo(np.int64).max


class Packer(Protocol):
    """Prefers nodes and shared devices by what else fits afterwards."""

    def rank(self, request: Request, rows: Ints) -> Ints: ...
    def pick(self, request: Request, node: int) -> int: ...


class Board:
    """Free devices, cpus and memory by node row, and who holds the rest until when.

    `free_gpus[model]` counts the devices that are wholly free and of a model, or of a set of
    models, by node; `free_gpus[NONE]`, the last row, counts those of any model. `free_milli` is
    what a device still offers, `largest_share` the most that one shareable device of a node does,
    by model as above. `spare_*` is what jobs may take of a node beside a reservation; a share
    counts there as a device. `changes` counts by node how often it was charged.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        nodes, devices = snapshot.nodes, snapshot.devices
        self.snapshot = snapshot
        self.packer: Packer | None = None
        self.accepts: Flags = snapshot.accepts()
        self._models = len(snapshot.models)
        offered = devices.is_healthy & nodes.takes_work[devices.node]
        self.is_offered: Flags = offered
        free_milli = devices.free_milli(snapshot.slices)
        self.free_milli: Ints = ints(np.where(offered, free_milli, 0))
        self.is_free: Flags = self.free_milli == WHOLE_MILLI
        self.present_gpus = self.count(np.ones_like(offered))
        self.offered_gpus = self.count(offered)
        self.is_all_in_order = bool(offered.all()) and bool(nodes.takes_work.all())
        self.free_gpus = self.count(self.is_free)
        self.cpus_free: Ints = nodes.cpus_free.copy()
        self.memory_free_mib: Ints = nodes.memory_free_mib.copy()
        size = len(nodes.id)
        self.changes: Ints = np.zeros(size, dtype=np.int64)
        self.in_pool: Flags = nodes.pool == np.arange(len(snapshot.pools))[:, None]
        self.reserved_pools: set[int] = set()
        self.spare_gpus: Ints = np.full(size, UNLIMITED)
        self.spare_cpus: Ints = np.full(size, UNLIMITED)
        self.spare_memory_mib: Ints = np.full(size, UNLIMITED)
        self.holder: Ints = _last_holders(snapshot)
        self._begin: Ints = ints(np.searchsorted(devices.node, np.arange(size)))
        self._end: Ints = ints(np.searchsorted(devices.node, np.arange(size), side="right"))
        self.link_groups = int(devices.link_group.max(initial=-1)) + 1
        self.node_of_link_group: Ints = np.zeros(self.link_groups, dtype=np.int64)
        self.node_of_link_group[devices.link_group] = devices.node
        self._planned: list[tuple[int, int, int, float]] = []
        self.largest_share: Ints = np.zeros((len(self.accepts), size), dtype=np.int64)
        shared = np.flatnonzero(devices.is_shareable)
        milli = self.accepts[:, devices.model[shared]] * self.free_milli[shared]
        np.maximum.at(self.largest_share.T, devices.node[shared], milli.T)
        self._keep_claims()

    def count(self, chosen: Flags) -> Ints:
        """Chosen devices by model (last row: any) and node."""
        devices, size = self.snapshot.devices, len(self.snapshot.nodes.id)
        flat = devices.model[chosen] * size + devices.node[chosen]
        table = np.bincount(flat, minlength=self._models * size)
        return np.asarray(self.accepts.astype(np.int64) @ table.reshape(self._models, size))

    def devices_of(self, node: int) -> slice:
        """The device rows of a node."""
        return slice(int(self._begin[node]), int(self._end[node]))

    def fits(self, request: Request, *, past_reservations: bool = False) -> Flags:
        """Nodes whose free capacity holds one share of the request now."""
        if request.is_share:
            has_gpus = self.largest_share[request.model] >= request.gpu_milli
        else:
            has_gpus = self.free_gpus[request.model] >= request.gpus
        fit = (
            has_gpus
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

    def may_serve(self, request: Request) -> Flags:
        """Devices whose model and kind the request takes, whoever holds them."""
        devices = self.snapshot.devices
        serves: Flags = self.accepts[request.model][devices.model]
        return flags(serves & devices.is_shareable) if request.is_share else serves

    def shares_cards(self, model: int) -> Flags:
        """Nodes with a shareable device of the model, in order or not."""
        devices = self.snapshot.devices
        shared = self.accepts[model][devices.model] & devices.is_shareable
        return flags(np.bincount(devices.node[shared], minlength=len(self.changes)))

    def free_of(self, request: Request) -> Ints:
        """By node, how many devices have room for one device's part of the request."""
        if not request.is_share:
            return ints(self.free_gpus[request.model])
        room = self.may_serve(request) & (self.free_milli >= request.gpu_milli)
        node = self.snapshot.devices.node[room]
        return ints(np.bincount(node, minlength=len(self.changes)))

    def charge(
        self, node: int, device_rows: Ints, request: Request, until_s: float, *, uses_spare: bool
    ) -> None:
        """Take devices, cpus and memory of a node until `until_s`.

        `uses_spare` is false for a job that is gone before the reservations begin.
        """
        devices = self.snapshot.devices
        whole = device_rows[self.is_free[device_rows]]
        self.is_free[device_rows] = False
        self.free_milli[device_rows] -= request.gpu_milli
        self._hold(device_rows, until_s)
        self._planned.append((node, request.cpus, request.memory_mib, until_s))
        self.free_gpus[:, node] -= self.accepts[:, devices.model[whole]].sum(axis=1)
        if len(device_rows) and devices.is_shareable[device_rows].any():
            self._measure_shares(node)
        self.changes[node] += 1
        self.cpus_free[node] -= request.cpus
        self.memory_free_mib[node] -= request.memory_mib
        if uses_spare and self.spare_gpus[node] != UNLIMITED:
            self.spare_gpus[node] -= len(device_rows)
            self.spare_cpus[node] -= request.cpus
            self.spare_memory_mib[node] -= request.memory_mib

    def keep(
        self, node: int, device_rows: Ints, *, cpus: int, memory_mib: int, until_s: float
    ) -> None:
        """Take devices for a job that starts once their holders have left; nobody else gets them.

        `cpus` and `memory_mib` are what it needs of the node beside what the holders give back.
        """
        devices = self.snapshot.devices
        free = device_rows[self.is_free[device_rows]]
        self.free_gpus[:, node] -= self.accepts[:, devices.model[free]].sum(axis=1)
        self.is_free[device_rows] = False
        self.free_milli[device_rows] = 0
        if devices.is_shareable[device_rows].any():
            self._measure_shares(node)
        self._planned.append((node, cpus, memory_mib, until_s))
        self.holder[device_rows] = len(self.snapshot.held.job) + len(self._planned) - 1
        self.cpus_free[node] -= cpus
        self.memory_free_mib[node] -= memory_mib
        self.changes[node] += 1

    def _keep_claims(self) -> None:
        """Keep what the snapshot's claims name, less what those who leave give back."""
        claims, devices, held = self.snapshot.claims, self.snapshot.devices, self.snapshot.held
        if not len(claims.job):
            return
        size = len(self.snapshot.nodes.id)
        leaving = np.unique(devices.holder[(devices.claim != NONE) & (devices.holder != NONE)])
        cpus = np.bincount(held.node[leaving], weights=held.cpus[leaving], minlength=size)
        mib = np.bincount(held.node[leaving], weights=held.memory_mib[leaving], minlength=size)
        for row, node in enumerate(claims.node.tolist()):
            freed_cpus = min(int(cpus[node]), int(claims.cpus[row]))
            freed_mib = min(int(mib[node]), int(claims.memory_mib[row]))
            cpus[node] -= freed_cpus
            mib[node] -= freed_mib
            self.keep(
                node,
                ints(np.flatnonzero(devices.claim == row)),
                cpus=int(claims.cpus[row]) - freed_cpus,
                memory_mib=int(claims.memory_mib[row]) - freed_mib,
                until_s=float(claims.until_s[row]),
            )

    def _hold(self, device_rows: Ints, until_s: float) -> None:
        """Enter the next planned start as the holder, on a shared device if it is the last."""
        for row in device_rows.tolist():
            before = int(self.holder[row])
            if before == NONE or until_s >= self._until_s(before):
                self.holder[row] = len(self.snapshot.held.job) + len(self._planned)

    def _until_s(self, holder: int) -> float:
        held = self.snapshot.held
        if holder < len(held.job):
            return float(held.until_s[holder])
        return self._planned[holder - len(held.job)][3]

    def _measure_shares(self, node: int) -> None:
        devices, here = self.snapshot.devices, self.devices_of(node)
        milli = self.free_milli[here] * devices.is_shareable[here]
        by_model = self.accepts[:, devices.model[here]] * milli
        self.largest_share[:, node] = by_model.max(axis=1, initial=0)

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


def _last_holders(snapshot: Snapshot) -> Ints:
    """By device the placement that holds it, on a shared device the one that ends last; -1 free."""
    holder, slices = snapshot.devices.holder.copy(), snapshot.slices
    soonest_first = np.argsort(snapshot.held.until_s[slices.holder], kind="stable")
    holder[slices.device[soonest_first]] = slices.holder[soonest_first]
    return holder
