"""The only door to NVML: inventory, samples and faults of real devices."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scheduler.agent.gpus.driver import CONTROL_FILES
from scheduler.agent.gpus.face import Fault, GpuProblem, Holding
from scheduler.agent.gpus.links import link_groups
from scheduler.agent.gpus.mig import Instance, instances_of, is_in_mig_mode
from scheduler.states import HARDWARE_XIDS, Trouble
from scheduler.wire.messages import DeviceFacts, DeviceSample

_MIB = 1024 * 1024
_MAX_EVENTS = 64
_NAMED_PROCESSES = 4
# A driver keeps some memory of an idle card for itself: tens of MiB, a context takes hundreds.
_LEFT_MIB = 256

logger = logging.getLogger(__name__)


class NvmlGpus:
    """Real devices that answer at the start. Raises GpuProblem when the driver does not.

    One that fell off the bus before is left out, and so absent for the server: it cannot say who it
    is, and jobs on the others must not end for it.
    """

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        self._devices: list[Any] = []
        # Asked once: a device that falls off the bus no longer says who it is.
        self._cards: list[DeviceFacts] = []
        try:
            pynvml.nvmlInit()
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise GpuProblem(
                f"NVML does not answer ({error}). Install the NVIDIA driver and check that "
                "`nvidia-smi` works, or start with --simulated-gpus N to try without."
            ) from None
        for index in range(count):
            try:
                device = pynvml.nvmlDeviceGetHandleByIndex(index)
                card = self._facts(index, device)
            except pynvml.NVMLError as error:
                logger.error("GPU %d does not answer (%s) and is left out", index, error)
                continue
            self._devices.append(device)
            self._cards.append(card)
        groups = link_groups(pynvml, self._devices)
        pairs = zip(self._cards, groups, strict=True)
        self._cards = [replace(card, link_group=group) for card, group in pairs]
        self._uuids = [card.uuid for card in self._cards]
        self._events = self._listen()
        # By the UUID of their card, as listed last.
        self._instances: dict[str, tuple[Instance, ...]] = {}

    def inventory(self) -> tuple[DeviceFacts, ...]:
        """All devices NVML lists, each with its MIG instances behind it.

        A card in MIG mode without instances is left out: no program can use it. One that was lost
        meanwhile is told as it was; that it is lost is a fault.
        """
        found: list[DeviceFacts] = []
        for card, device in zip(self._cards, self._devices, strict=True):
            try:
                self._nvml.nvmlDeviceGetUUID(device)
                here = self._parts(card, device)
            except self._nvml.NVMLError:
                here = self._instances.get(card.uuid)
            if here is None:
                found.append(card)
            else:
                found += [card, *(_part(card, one) for one in here)] if here else []
        return tuple(found)

    def _parts(self, card: DeviceFacts, device: Any) -> tuple[Instance, ...] | None:
        """The card's instances; None where it is not in MIG mode. Raises NVMLError."""
        self._instances.pop(card.uuid, None)
        if not is_in_mig_mode(self._nvml, device):
            return None
        here = self._instances[card.uuid] = tuple(instances_of(self._nvml, device, card.model))
        return here

    def _facts(self, index: int, device: Any) -> DeviceFacts:
        return DeviceFacts(
            uuid=_text(self._nvml.nvmlDeviceGetUUID(device)),
            index=index,
            model=_text(self._nvml.nvmlDeviceGetName(device)),
            memory_mib=self._nvml.nvmlDeviceGetMemoryInfo(device).total // _MIB,
        )

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """One reading of each device that answers; one that fell off the bus is left out."""
        found: list[DeviceSample] = []
        for uuid, device in zip(self._uuids, self._devices, strict=True):
            try:
                card = self._read(uuid, device, holders.get(uuid))
            except self._nvml.NVMLError:
                continue
            parts = self._instances.get(uuid, ())
            found += [card, *(self._part(card, one, holders.get(one.uuid)) for one in parts)]
        return tuple(found)

    def _part(self, card: DeviceSample, part: Instance, holder: Holding | None) -> DeviceSample:
        """An instance is as hot as its card; how busy it is and what it draws nobody tells."""
        return replace(
            card,
            uuid=part.uuid,
            gpu_percent=None,
            memory_used_mib=self._used_mib(part.handle),
            power_watts=0.0,
            fence=holder.fence if holder else None,
        )

    def _read(self, uuid: str, device: Any, holder: Holding | None) -> DeviceSample:
        nvml = self._nvml
        return DeviceSample(
            uuid=uuid,
            at=time.time(),
            gpu_percent=self._use(device),
            memory_used_mib=nvml.nvmlDeviceGetMemoryInfo(device).used // _MIB,
            power_watts=self._supported(nvml.nvmlDeviceGetPowerUsage, device) / 1000,
            temperature_c=float(
                self._supported(nvml.nvmlDeviceGetTemperature, device, nvml.NVML_TEMPERATURE_GPU)
            ),
            fence=holder.fence if holder else None,
        )

    def _use(self, device: Any) -> float | None:
        """Per cent; None from a card that does not tell, such as one in MIG mode."""
        try:
            return float(self._nvml.nvmlDeviceGetUtilizationRates(device).gpu)
        except self._nvml.NVMLError_NotSupported:
            return None

    def _supported(self, question: Any, *arguments: Any) -> Any:
        """The answer; 0 from a card that never has one. Raises NVMLError for what is wrong now.

        Not for how busy a card is: 0 would look like a job that does nothing.
        """
        try:
            return question(*arguments)
        except self._nvml.NVMLError_NotSupported:
            return 0

    def faults(self, held: Collection[str]) -> tuple[Fault, ...]:
        """Xid errors since the last call, and what each device shows now."""
        found = list(self._xids())
        for uuid, device in zip(self._uuids, self._devices, strict=True):
            parts = self._instances.get(uuid, ())
            found += self._shown(uuid, device, is_held=uuid in held or bool(parts))
            for part in parts:
                found += self._left_behind(part.uuid, part.handle) if part.uuid not in held else ()
        return tuple(found)

    def device_files(self, uuids: Collection[str]) -> tuple[str, ...]:
        """The cards' own files and those every CUDA program opens; none without a card."""
        found = [
            f"/dev/nvidia{self._nvml.nvmlDeviceGetMinorNumber(device)}"
            for uuid, device in zip(self._uuids, self._devices, strict=True)
            if uuid in uuids
        ]
        return (*found, *CONTROL_FILES) if found else ()

    def check_command(self, uuid: str) -> tuple[str, ...]:
        """Writes and reads back memory of the device through the CUDA driver, in its own process.

        Not in ours: a broken device may hang whoever asks it.
        """
        root = str(Path(__file__).resolve().parents[3])
        start = (
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "from scheduler.agent.gpus.device_check import main; main(sys.argv[2])"
        )
        return (sys.executable, "-I", "-c", start, root, uuid)

    def _listen(self) -> Any:
        """The set of events to look into; None where no card tells any."""
        nvml, hears = self._nvml, False
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        for uuid, device in zip(self._uuids, self._devices, strict=True):
            try:
                nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
                hears = True
            except nvml.NVMLError as error:
                logger.warning("Xid errors of %s are not heard: %s", uuid, error)
        return events if hears else None

    def _xids(self) -> Iterator[Fault]:
        nvml = self._nvml
        for _ in range(_MAX_EVENTS if self._events is not None else 0):
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                uuid = _text(nvml.nvmlDeviceGetUUID(event.device))
            except nvml.NVMLError_Timeout:
                return
            except nvml.NVMLError:
                continue  # who is gone shows as lost
            code = int(event.eventData)
            if code in HARDWARE_XIDS:
                yield Fault(uuid, Trouble.XID, f"Xid {code}: {HARDWARE_XIDS[code]}", is_new=True)

    def _shown(self, uuid: str, device: Any, *, is_held: bool) -> Iterator[Fault]:
        nvml = self._nvml
        try:
            degrees = nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)
        except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_Unknown) as error:
            yield Fault(uuid, Trouble.LOST, str(error))
            return
        except nvml.NVMLError:
            degrees = 0
        slowdown = nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        limit = self._ask(nvml.nvmlDeviceGetTemperatureThreshold, device, slowdown)
        if limit and degrees >= limit:
            yield Fault(uuid, Trouble.HOT, f"{degrees} C, and it slows down from {limit} C")
        kinds = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        errors = self._ask(nvml.nvmlDeviceGetTotalEccErrors, device, *kinds)
        if errors:
            yield Fault(uuid, Trouble.ECC, f"{errors} since the driver was loaded")
        if not is_held:
            yield from self._left_behind(uuid, device)

    def _left_behind(self, uuid: str, device: Any) -> Iterator[Fault]:
        """What is on a device, or an instance, that no job holds: processes, else memory.

        Memory without a process is a leak of the driver's, or of a process that cannot die. A
        screen's program is listed apart; what it takes is not held against the card.
        """
        running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses_v3, device)
        pids = [one.pid for one in running or ()]
        if pids:
            names = ", ".join(str(pid) for pid in pids[:_NAMED_PROCESSES])
            yield Fault(uuid, Trouble.NOT_RELEASED, f"{len(pids)} processes, such as {names}")
            return
        left_mib = self._used_mib(device)
        if left_mib > _LEFT_MIB and not self._ask(
            self._nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, device
        ):
            words = f"{left_mib} MiB of its memory are taken and no process is listed"
            yield Fault(uuid, Trouble.NOT_RELEASED, words)

    def _used_mib(self, device: Any) -> int:
        """Memory in use; without what the driver reserves, which drivers before 510 never count."""
        ask = self._nvml.nvmlDeviceGetMemoryInfo
        told = self._ask(ask, device, self._nvml.nvmlMemory_v2) or self._ask(ask, device)
        return int(told.used) // _MIB if told else 0

    def _ask(self, question: Any, *arguments: Any) -> Any:
        """The answer; None from a device that has none."""
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


def _part(card: DeviceFacts, instance: Instance) -> DeviceFacts:
    return DeviceFacts(
        uuid=instance.uuid,
        index=card.index,
        model=instance.model,
        memory_mib=instance.memory_mib,
        parent=card.uuid,
        milli=instance.milli,
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
