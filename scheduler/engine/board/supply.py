"""Devices by model and node."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.engine.snapshot import Flags, Ints, Request, Snapshot, flags, ints


class Supply:
    """So many of the `chosen` devices a node has: `supply[model]` by node, the last row any model.

    It is a table as well as a question: `of` counts what serves a request in every respect. `nodes`
    are those that count at all, also for who asks for no devices.
    """

    def __init__(self, snapshot: Snapshot, accepts: Flags, chosen: Flags, nodes: Flags) -> None:
        self.nodes = nodes
        self._snapshot = snapshot
        self._accepts = accepts
        self._chosen = chosen
        self.table: Ints = count_devices(snapshot, accepts, chosen)

    def __getitem__(self, rows: Any) -> Ints:
        found: Ints = self.table[rows]
        return found

    def of(self, request: Request) -> Ints:
        """By node, the chosen devices that serve the request, whoever holds them."""
        if not is_picky(request):
            return ints(self.table[request.model])
        serves = serves_kind(self._snapshot, self._accepts, request) & self._chosen
        node = self._snapshot.devices.node[serves]
        return ints(np.bincount(node, minlength=self.table.shape[1]))


def count_devices(snapshot: Snapshot, accepts: Flags, chosen: Flags) -> Ints:
    """Chosen devices by model, or set of models (last row: any), and node."""
    devices, size, models = snapshot.devices, len(snapshot.nodes.id), len(snapshot.models)
    flat = devices.model[chosen] * size + devices.node[chosen]
    table = np.bincount(flat, minlength=models * size)
    return np.asarray(accepts.astype(np.int64) @ table.reshape(models, size))


def is_picky(request: Request) -> bool:
    """Whether devices of its model may still not do, so that counts by model do not tell."""
    return request.gpu_memory_mib > 0 or request.isolation > 0


def serves_kind(
    snapshot: Snapshot, accepts: Flags, request: Request, rows: slice = slice(None)
) -> Flags:
    """Which of the devices `rows` are of a kind that the request takes, whoever holds them."""
    devices = snapshot.devices
    serves: Flags = accepts[request.model][devices.model[rows]]
    if request.is_share:
        serves = flags(serves & devices.is_shareable[rows])
    if is_picky(request):
        serves = flags(
            serves
            & (devices.memory_mib[rows] >= request.gpu_memory_mib)
            & (devices.isolation[rows] >= request.isolation)
        )
    return serves
