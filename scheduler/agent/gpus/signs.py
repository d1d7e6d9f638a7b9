"""Signs of what is wrong with real cards, as NVML shows them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from scheduler.agent.gpus.face import Fault
from scheduler.states import HARDWARE_XIDS, Trouble

_MIB = 1024 * 1024
_MAX_EVENTS = 64
_NAMED_PROCESSES = 4
# NVIDIA's MPS server stays on a card, with its memory, when its clients have gone.
_STAYS = "nvidia-cuda-mps-server"
# Of a process's name the kernel keeps so many letters.
_COMM = 15
# A driver keeps some memory of an idle card for itself: tens of MiB, a context takes hundreds.
_LEFT_MIB = 256

logger = logging.getLogger(__name__)


class Signs:
    """What the handles of `nvml` show, one at a time; calls may hang with their card."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._events: Any = None

    def listen(self, devices: Iterable[tuple[str, Any]]) -> None:
        """Hear the Xid errors of these cards, by UUID, where they tell any."""
        nvml, hears = self._nvml, False
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return
        for uuid, device in devices:
            try:
                nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
                hears = True
            except nvml.NVMLError as error:
                logger.warning("Xid errors of %s are not heard: %s", uuid, error)
        self._events = events if hears else None

    def xids(self) -> Iterator[Fault]:
        """Those of the hardware since the last call."""
        nvml = self._nvml
        for _ in range(_MAX_EVENTS if self._events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                uuid = text(nvml.nvmlDeviceGetUUID(event.device))
            except nvml.NVMLError_Timeout:
                return
            except nvml.NVMLError:
                continue  # who is gone shows as lost
            code = int(event.eventData)
            if code in HARDWARE_XIDS:
                yield Fault(uuid, Trouble.XID, f"Xid {code}: {HARDWARE_XIDS[code]}", is_new=True)

    def shown(self, uuid: str, device: Any, *, is_held: bool) -> Iterator[Fault]:
        """What a card shows now."""
        nvml = self._nvml
        try:
            degrees = nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_Unknown) as error:
            yield Fault(uuid, Trouble.LOST, str(error))
            return
        except nvml.NVMLError:
            degrees = 0
        yield from self._hot(uuid, device, degrees)
        kinds = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        errors = self._ask(nvml.nvmlDeviceGetTotalEccErrors, device, *kinds)
        if errors:
            yield Fault(uuid, Trouble.ECC, f"{errors} since the driver was loaded")
        if not is_held:
            yield from self.left_behind(uuid, device)

    def _hot(self, uuid: str, device: Any, degrees: int) -> Iterator[Fault]:
        """Where the driver names no limit any more, what slows the card down tells."""
        nvml = self._nvml
        slowdown = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        limit = self._ask(nvml.nvmlDeviceGetTemperatureThreshold, device, slowdown)
        if limit and degrees >= limit:
            yield Fault(uuid, Trouble.HOT, f"{degrees} C, and it slows down from {limit} C")
        reasons = 0 if limit else self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, device)
        if (reasons or 0) & nvml.nvmlClocksEventReasonHwThermalSlowdown:
            yield Fault(uuid, Trouble.HOT, f"{degrees} C, and its hardware slows it down")

    def slowed(self, device: Any) -> tuple[bool | None, bool | None]:
        """Whether heat, and whether the limit of its power, slows it down now; None: untold."""
        nvml = self._nvml
        # As drivers before 535 call it.
        for question in ("EventReasons", "ThrottleReasons"):
            told = self._ask(getattr(nvml, f"nvmlDeviceGetCurrentClocks{question}"), device)
            if told is not None:
                return bool(told & _heat(nvml)), bool(told & _power(nvml))
        return None, None

    def left_behind(self, uuid: str, device: Any) -> Iterator[Fault]:
        """What is on a device, or an instance, that no job holds: processes, else memory.

        Memory without a process is a leak of the driver's, or of a process that cannot die. A
        screen's program is listed apart; what it takes is not held against the card, nor is an MPS
        server.
        """
        running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses_v3, device)
        named = {one.pid: _comm(one.pid) for one in running or ()}
        pids = [pid for pid, name in named.items() if name != _STAYS[:_COMM]]
        if pids:
            names = ", ".join(str(pid) for pid in pids[:_NAMED_PROCESSES])
            yield Fault(uuid, Trouble.NOT_RELEASED, f"{len(pids)} processes, such as {names}")
        if named:
            return
        left_mib = self.used_mib(device)
        if left_mib > _LEFT_MIB and not self._ask(
            self._nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, device
        ):
            words = f"{left_mib} MiB of its memory are taken and no process is listed"
            yield Fault(uuid, Trouble.NOT_RELEASED, words)

    def used_mib(self, device: Any) -> int:
        """Memory in use; 0 where it does not say.

        Without what the driver reserves, which drivers before 510 never count.
        """
        ask = self._nvml.nvmlDeviceGetMemoryInfo
        told = self._ask(ask, device, self._nvml.nvmlMemory_v2) or self._ask(ask, device)
        return int(told.used) // _MIB if told else 0

    def _ask(self, question: Any, *arguments: Any) -> Any:
        """The answer; None from a device that has none."""
        with suppress(self._nvml.NVMLError):
            return question(*arguments)
        return None


def _heat(nvml: Any) -> int:
    hardware: int = nvml.nvmlClocksEventReasonHwThermalSlowdown
    return hardware | int(nvml.nvmlClocksEventReasonSwThermalSlowdown)


def _power(nvml: Any) -> int:
    """Its own limit, or the brake of what feeds it."""
    brake: int = nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown
    return brake | int(nvml.nvmlClocksEventReasonSwPowerCap)


def _comm(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    return ""


def text(value: str | bytes) -> str:
    """A word of NVML's; its bindings give either."""
    return value.decode() if isinstance(value, bytes) else value
