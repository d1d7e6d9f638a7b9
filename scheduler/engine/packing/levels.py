"""What the devices of a node offer, as small numbers that tables can be looked up by.

A *kind* of device is its model and whether it may be shared; kind 0 offers nothing. The *level* of
a device is kind * 1001 + free milli-GPU. A node's state is the levels of its devices in their
order, filled up with level 0, and its free cpus.
"""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Flags, Floats, Ints, Request, floats, ints

STEP = WHOLE_MILLI + 1


class Levels:
    """The levels of a board's devices. `milli` and `kind` are by level, the rest by kind."""

    def __init__(self, board: Board) -> None:
        devices, size = board.snapshot.devices, len(board.snapshot.nodes.id)
        self.board = board
        self.models = len(board.snapshot.models)
        kinds = 1 + 2 * self.models
        self.model: Ints = ints((np.arange(kinds) - 1) // 2)
        self.is_shareable: Flags = np.arange(kinds) % 2 == 0
        self.is_shareable[0] = False
        self.kind: Ints = ints(np.repeat(np.arange(kinds), STEP))
        self.milli: Floats = floats(np.where(self.kind > 0, np.arange(kinds * STEP) % STEP, 0))
        kind = 1 + 2 * devices.model + devices.is_shareable
        self._offset: Ints = ints(np.where(board.is_offered, kind * STEP, 0))
        width = int(np.bincount(devices.node, minlength=1).max(initial=0))
        self.grid: Ints = np.full((size, width), NONE, dtype=np.int64)
        column = np.arange(len(devices.id)) - np.searchsorted(devices.node, devices.node)
        self.grid[devices.node, column] = np.arange(len(devices.id))
        self._is_device: Ints = (self.grid != NONE).astype(np.int64)

    def of(self, nodes: Ints) -> Ints:
        """Levels now, by node and device."""
        rows = self.grid[nodes]
        levels: Ints = self._is_device[nodes] * (self._offset[rows] + self.board.free_milli[rows])
        return levels

    def serves(self, accepts: Flags, gpu_milli: int) -> Flags:
        """By level, whether the device holds so much of a model in `accepts` (by model) now."""
        takes = np.append(accepts, False)[self.model]
        if gpu_milli < WHOLE_MILLI:
            takes &= self.is_shareable
        takes[0] = False
        served: Flags = takes[self.kind] & (self.milli >= gpu_milli)
        return served

    def serves_request(self, request: Request) -> Flags:
        """By level, whether the device holds one device's part of the request now."""
        return self.serves(self.board.accepts[request.model], request.gpu_milli)

    def installed_milli(self) -> Floats:
        """Milli-GPU on offer if everything were free, by model."""
        devices = self.board.snapshot.devices
        offered = devices.model[self.board.is_offered]
        return floats(np.bincount(offered, minlength=self.models) * WHOLE_MILLI)
