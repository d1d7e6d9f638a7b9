"""The one face of a node's devices, whoever stands behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from scheduler.states import Trouble
from scheduler.wire.messages import DeviceFacts
from scheduler.wire.readings import DeviceSample


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds a device: the attempt's fence and the processor cores it keeps busy.

    Of a card that several attempts have slots of: no fence, and the cores of all of them.
    """

    fence: int | None
    busy_cores: float
    held_s: float

    def beside(self, other: Holding | None) -> Holding:
        """Both on one card; itself if there is no other."""
        if other is None:
            return self
        busy_cores = self.busy_cores + other.busy_cores
        return Holding(None, busy_cores, max(self.held_s, other.held_s))


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a device at this moment; `is_new`: it just happened, and is told once."""

    uuid: str
    kind: Trouble
    detail: str
    is_new: bool = False


class GpuProblem(Exception):
    """The devices cannot be read; the text says what to do."""


class Gpus(Protocol):
    """Devices of a node behind one face."""

    driver: str

    def inventory(self) -> tuple[DeviceFacts, ...]:
        """All devices, in index order."""

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """One reading of each device; `holders` maps device UUIDs to who has them."""

    def faults(self, held: Collection[str]) -> tuple[Fault, ...]:
        """What is wrong now; what is left on a device not in `held` is a fault too."""

    def device_files(self, uuids: Collection[str]) -> tuple[str, ...]:
        """The files below /dev that a program needs for these devices, and no others.

        Raises GpuProblem where the driver does not name them.
        """

    def check_command(self, uuid: str) -> tuple[str, ...]:
        """A program that tries the device out and ends with 0 if it is well."""
