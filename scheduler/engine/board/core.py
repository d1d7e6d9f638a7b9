"""Free devices, cpus and memory by node, and who holds the rest until when."""

from __future__ import annotations

from copy import copy
from typing import Protocol

import numpy as np

from scheduler.engine.board.cards import Cards
from scheduler.engine.board.claims import keep_claims
from scheduler.engine.board.kept import Keeping
from scheduler.engine.board.licences import Licences
from scheduler.engine.board.supply import Supply, count_devices, is_picky, serves_kind
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

# What charges change, beside what cards, licences and the room that is kept count for themselves.
_CHARGED = (
    *("free_milli", "is_free", "free_gpus", "cpus_free", "memory_free_mib", "scratch_free_mib"),
    *("residents", "is_closed", "changes", "holder", "largest_share"),
    *("_planned", "_planned_scratch_mib"),
)


class Packer(Protocol):
    """Prefers nodes and shared devices by what else fits afterwards."""

    def rank(self, request: Request, rows: Ints) -> Ints: ...
    def pick(self, request: Request, node: int) -> int: ...


class Board:
    """Free devices, cpus and memory by node row, and who holds the rest until when.

    `free_gpus[model]` counts the devices that are wholly free and of a model, or of a set of
    models, by node; `free_gpus[NONE]`, the last row, counts those of any model. `free_milli` is
    what a device still offers, `largest_share` the most that one shareable device of a node does,
    by model as above. `keeping` is the room kept from some time on. `changes` counts by node how
    often it was charged. `residents` counts who is on a node, `is_closed` says that it is
    somebody's alone.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        nodes, devices = snapshot.nodes, snapshot.devices
        self.snapshot = snapshot
        self.packers: dict[int, Packer] = {}
        self.accepts: Flags = snapshot.accepts()
        offered = devices.is_healthy & nodes.takes_work[devices.node]
        self.is_offered: Flags = offered
        free_milli = devices.free_milli(snapshot.slices)
        self.free_milli: Ints = ints(np.where(offered, free_milli, 0))
        self.is_free: Flags = self.free_milli == WHOLE_MILLI
        everywhere = np.ones_like(nodes.takes_work)
        self.present_gpus = Supply(snapshot, self.accepts, np.ones_like(offered), everywhere)
        self.offered_gpus = Supply(snapshot, self.accepts, offered, nodes.takes_work)
        self._all_take_work = bool(nodes.takes_work.all())
        self.is_all_in_order = bool(offered.all()) and self._all_take_work
        self.free_gpus = count_devices(snapshot, self.accepts, self.is_free)
        self.cpus_free: Ints = nodes.cpus_free.copy()
        self.memory_free_mib: Ints = nodes.memory_free_mib.copy()
        self.scratch_free_mib: Ints = nodes.scratch_free_mib.copy()
        size = len(nodes.id)
        self.residents: Ints = ints(np.bincount(snapshot.held.node, minlength=size))
        alone = snapshot.held.node[snapshot.held.is_exclusive]
        self.is_closed: Flags = flags(np.bincount(alone, minlength=size))
        self._has_closed = bool(len(alone))
        self.cards = Cards(snapshot)
        self.licences = Licences(snapshot)
        self.has_failures = bool(nodes.failures.any())
        self.changes: Ints = np.zeros(size, dtype=np.int64)
        self.in_pool: Flags = nodes.pool == np.arange(len(snapshot.pools))[:, None]
        self.keeping = Keeping(size, self.accepts)
        self.holder: Ints = _last_holders(snapshot)
        self._begin: Ints = ints(np.searchsorted(devices.node, np.arange(size)))
        self._end: Ints = ints(np.searchsorted(devices.node, np.arange(size), side="right"))
        # Groups of devices that reach each other fast, the closest first.
        self.link_levels = [devices.link_group]
        if (devices.wide_group != NONE).any():
            self.link_levels.append(devices.wide_group)
        self._planned: list[tuple[int, int, int, float]] = []
        self._planned_scratch_mib: list[int] = []
        self.largest_share: Ints = np.zeros((len(self.accepts), size), dtype=np.int64)
        shared = np.flatnonzero(devices.is_shareable)
        self._has_shareable = bool(len(shared))
        milli = self.accepts[:, devices.model[shared]] * self.free_milli[shared]
        np.maximum.at(self.largest_share.T, devices.node[shared], milli.T)
        keep_claims(self)

    def copied(self, snapshot: Snapshot) -> Board:
        """Another one to be charged by itself, of a snapshot that differs in who waits alone."""
        other = copy(self)
        other.snapshot, other.packers = snapshot, {}
        for name in _CHARGED:
            setattr(other, name, getattr(self, name).copy())
        other.cards, other.licences = self.cards.copied(), self.licences.copied()
        other.keeping = self.keeping.copied()
        return other

    def devices_of(self, node: int) -> slice:
        """The device rows of a node."""
        return slice(int(self._begin[node]), int(self._end[node]))

    def allows(self, request: Request) -> Flags:
        """Nodes of the request's pool, or booking, that its mask does not exclude."""
        here: Flags = self.in_pool[request.pool]
        if request.booking != NONE:
            here = flags(here & self.keeping.booked_nodes(request.booking))
        masks = self.snapshot.node_masks
        if request.mask == NONE or masks is None:
            return here
        return flags(here & masks[request.mask])

    def fits(self, request: Request, *, past_tenants: bool = False) -> Flags:
        """Nodes whose free capacity holds one share of the request now, what is kept aside.

        `past_tenants`: as if tenants did not mind each other.
        """
        fit = (
            self._have_gpus(request, past_tenants)
            & (self.cpus_free >= request.cpus)
            & (self.memory_free_mib >= request.memory_mib)
            & self.allows(request)
        )
        if not self._all_take_work:
            # Its GPUs are not on offer, but who asks for none would find the rest free.
            fit &= self.snapshot.nodes.takes_work
        if request.scratch_mib:
            fit &= self.scratch_free_mib >= request.scratch_mib
        if self._has_closed:
            fit &= ~self.is_closed
        if request.is_exclusive:
            fit &= self.residents == 0
        if request.booking != NONE:
            fit &= self.keeping.holds_inside(request, self.snapshot.now_s)
        return np.asarray(fit)

    def _have_gpus(self, request: Request, past_tenants: bool) -> Flags:
        minds_tenants = self.cards.matter and not past_tenants and request.gpus > 0
        if is_picky(request) or minds_tenants:
            return flags(self.free_of(request, past_tenants=past_tenants) >= request.gpus)
        if request.is_share:
            return flags(self.largest_share[request.model] >= request.gpu_milli)
        return flags(self.free_gpus[request.model] >= request.gpus)

    def may_serve(self, request: Request, rows: slice = slice(None)) -> Flags:
        """Devices (`rows` of them) of a kind that the request takes, whoever holds them."""
        return serves_kind(self.snapshot, self.accepts, request, rows)

    def has_room(
        self, request: Request, rows: slice = slice(None), *, past_tenants: bool = False
    ) -> Flags:
        """Devices (`rows` of them) with room for one device's part of the request now."""
        room = self.free_milli[rows] >= request.gpu_milli
        return flags(room & self.may_take(request, rows, past_tenants=past_tenants))

    def may_take(
        self, request: Request, rows: slice = slice(None), *, past_tenants: bool = False
    ) -> Flags:
        """Devices (`rows` of them) of a kind it takes, on cards its tenant may come to now."""
        serves = self.may_serve(request, rows)
        if self.cards.matter and not past_tenants:
            serves = flags(serves & self.cards.allow(request, rows))
        return serves

    def free_for_others(self, model: int) -> tuple[Ints, Ints, Ints]:
        """GPUs of a model, cpus and memory by node, nothing of a node that is somebody's alone."""
        free = self.free_gpus[model], self.cpus_free, self.memory_free_mib
        if not self._has_closed:
            return ints(free[0]), free[1], free[2]
        gpus, cpus, memory_mib = (ints(np.where(self.is_closed, 0, column)) for column in free)
        return gpus, cpus, memory_mib

    def shares_cards(self, model: int) -> Flags:
        """Nodes with a shareable device of the model, in order or not."""
        devices = self.snapshot.devices
        shared = self.accepts[model][devices.model] & devices.is_shareable
        return flags(np.bincount(devices.node[shared], minlength=len(self.changes)))

    def free_of(self, request: Request, *, past_tenants: bool = False) -> Ints:
        """By node, how many devices have room for one device's part of the request."""
        minds_tenants = self.cards.matter and not past_tenants
        if not request.is_share and not is_picky(request) and not minds_tenants:
            return ints(self.free_gpus[request.model])
        room = self.has_room(request, past_tenants=past_tenants)
        node = self.snapshot.devices.node[room]
        return ints(np.bincount(node, minlength=len(self.changes)))

    def charge(self, node: int, device_rows: Ints, request: Request, until_s: float) -> None:
        """Take devices, cpus and memory of a node until `until_s`."""
        devices = self.snapshot.devices
        whole = device_rows[self.is_free[device_rows]]
        if len(whole):
            self.is_free[whole] = False
            self.free_gpus[:, node] -= self.accepts[:, devices.model[whole]].sum(axis=1)
        self._hold(device_rows, until_s)
        self._planned.append((node, request.cpus, request.memory_mib, until_s))
        self._planned_scratch_mib.append(request.scratch_mib)
        if len(device_rows):
            self.free_milli[device_rows] -= request.gpu_milli
            if self._has_shareable and devices.is_shareable[device_rows].any():
                self._measure_shares(node)
        self.cards.charge(device_rows, request, self._newest())
        self.residents[node] += 1
        if request.is_exclusive:
            self.is_closed[node] = self._has_closed = True
        self.scratch_free_mib[node] -= request.scratch_mib
        self.changes[node] += 1
        self.cpus_free[node] -= request.cpus
        self.memory_free_mib[node] -= request.memory_mib

    def keep(
        self, node: int, device_rows: Ints, *, cpus: int, memory_mib: int, until_s: float
    ) -> None:
        """Take devices for a job that starts once their holders have left; nobody else gets them.

        `cpus` and `memory_mib` are what it needs of the node beside what the holders give back.
        """
        devices = self.snapshot.devices
        free = device_rows[self.is_free[device_rows]]
        if len(free):
            self.free_gpus[:, node] -= self.accepts[:, devices.model[free]].sum(axis=1)
        self.is_free[device_rows] = False
        self.free_milli[device_rows] = 0
        if self._has_shareable and devices.is_shareable[device_rows].any():
            self._measure_shares(node)
        self._planned.append((node, cpus, memory_mib, until_s))
        self._planned_scratch_mib.append(0)
        self.holder[device_rows] = self._newest()
        self.cards.keep(device_rows, self._newest())
        self.cpus_free[node] -= cpus
        self.memory_free_mib[node] -= memory_mib
        self.changes[node] += 1
        self.residents[node] += 1

    def _newest(self) -> int:
        """The holder row of the last planned start."""
        return len(self.snapshot.held.job) + len(self._planned) - 1

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

    def held_scratch_mib(self) -> Ints:
        """Scratch of everything held, by holder row as in `holders`."""
        return np.concatenate([self.snapshot.held.scratch_mib, ints(self._planned_scratch_mib)])


def _last_holders(snapshot: Snapshot) -> Ints:
    """By device the placement that holds it, on a shared device the one that ends last; -1 free."""
    holder, slices = snapshot.devices.holder.copy(), snapshot.slices
    soonest_first = np.argsort(snapshot.held.until_s[slices.holder], kind="stable")
    holder[slices.device[soonest_first]] = slices.holder[soonest_first]
    return holder
