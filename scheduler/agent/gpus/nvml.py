"""The only door to NVML: inventory, samples and faults of real devices."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from scheduler.agent.gpus.asking import SILENT_S, Asker, Silent
from scheduler.agent.gpus.driver import CONTROL_FILES
from scheduler.agent.gpus.face import Fault, GpuProblem, Holding
from scheduler.agent.gpus.links import link_groups
from scheduler.agent.gpus.mig import Instance, access_files, instances_of, is_in_mig_mode
from scheduler.agent.gpus.signs import Signs, text
from scheduler.states import Trouble
from scheduler.wire.messages import DeviceFacts
from scheduler.wire.readings import DeviceSample

_MIB = 1024 * 1024

logger = logging.getLogger(__name__)


class NvmlGpus:
    """Real devices that answer at the start. Raises GpuProblem when the driver does not.

    One that fell off the bus before is left out, and so absent for the server: it cannot say who it
    is, and jobs on the others must not end for it. One that hangs later is passed over.
    """

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        self._devices: list[Any] = []
        # Asked once: a device that falls off the bus no longer says who it is.
        self._cards: list[DeviceFacts] = []
        try:
            pynvml.nvmlInit()
            self.driver = text(pynvml.nvmlSystemGetDriverVersion())
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
        self._asker = Asker()
        self._signs = Signs(pynvml)
        self._signs.listen(zip(self._uuids, self._devices, strict=True))
        # Heard on a thread that may answer late, and not told yet.
        self._xids: deque[Fault] = deque()
        # What each card showed last.
        self._shown: dict[str, tuple[Fault, ...]] = {}
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
                here = self._asker.ask(card.uuid, partial(self._parts, card, device))
            except (self._nvml.NVMLError, Silent):
                here = self._instances.get(card.uuid)
            if here is None:
                found.append(card)
            else:
                found += [card, *(_part(card, one) for one in here)] if here else []
        return tuple(found)

    def _parts(self, card: DeviceFacts, device: Any) -> tuple[Instance, ...] | None:
        """The card's instances; None where it is not in MIG mode. Raises NVMLError."""
        self._nvml.nvmlDeviceGetUUID(device)
        self._instances.pop(card.uuid, None)
        if not is_in_mig_mode(self._nvml, device):
            return None
        here = self._instances[card.uuid] = tuple(instances_of(self._nvml, device, card.model))
        return here

    def _facts(self, index: int, device: Any) -> DeviceFacts:
        return DeviceFacts(
            uuid=text(self._nvml.nvmlDeviceGetUUID(device)),
            index=index,
            model=text(self._nvml.nvmlDeviceGetName(device)),
            memory_mib=self._nvml.nvmlDeviceGetMemoryInfo(device).total // _MIB,
        )

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """One reading of each device that answers; one that fell off the bus is left out."""
        found: list[DeviceSample] = []
        for uuid, device in zip(self._uuids, self._devices, strict=True):
            with suppress(self._nvml.NVMLError, Silent):
                found += self._asker.ask(uuid, partial(self._readings, uuid, device, holders))
        return tuple(found)

    def _readings(
        self, uuid: str, device: Any, holders: Mapping[str, Holding]
    ) -> list[DeviceSample]:
        card = self._read(uuid, device, holders.get(uuid))
        parts = self._instances.get(uuid, ())
        return [card, *(self._part(card, one, holders.get(one.uuid)) for one in parts)]

    def _part(self, card: DeviceSample, part: Instance, holder: Holding | None) -> DeviceSample:
        """An instance is as hot as its card; how busy it is and what it draws nobody tells."""
        return replace(
            card,
            uuid=part.uuid,
            gpu_percent=None,
            memory_used_mib=self._signs.used_mib(part.handle),
            power_watts=0.0,
            fence=holder.fence if holder else None,
        )

    def _read(self, uuid: str, device: Any, holder: Holding | None) -> DeviceSample:
        nvml = self._nvml
        by_heat, by_power = self._signs.slowed(device)
        return DeviceSample(
            uuid=uuid,
            at=time.time(),
            gpu_percent=self._use(device),
            memory_used_mib=self._signs.used_mib(device),
            power_watts=self._supported(nvml.nvmlDeviceGetPowerUsage, device) / 1000,
            temperature_c=float(
                self._supported(nvml.nvmlDeviceGetTemperature, device, nvml.NVML_TEMPERATURE_GPU)
            ),
            fence=holder.fence if holder else None,
            slowed_by_heat=by_heat,
            slowed_by_power=by_power,
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
        """Xid errors since the last call, and what each device shows now; it may be silent.

        Of one that does not answer, what it showed last.
        """
        with suppress(Silent):
            self._asker.ask("", lambda: self._xids.extend(self._signs.xids()))
        found = [self._xids.popleft() for _ in range(len(self._xids))]
        for uuid, device in zip(self._uuids, self._devices, strict=True):
            with suppress(Silent):
                look = partial(self._look, uuid, device, frozenset(held))
                self._shown[uuid] = self._asker.ask(uuid, look)
            found += self._shown.get(uuid, ())
        words = f"the driver has had no answer from it for more than {SILENT_S:.0f} s"
        found += (Fault(uuid, Trouble.LOST, words) for uuid in self._asker.silent())
        return tuple(
            one for one in found if one.kind is not Trouble.NOT_RELEASED or one.uuid not in held
        )

    def _look(self, uuid: str, device: Any, held: Collection[str]) -> tuple[Fault, ...]:
        parts = self._instances.get(uuid, ())
        found = list(self._signs.shown(uuid, device, is_held=uuid in held or bool(parts)))
        for part in parts:
            if part.uuid not in held:
                found += self._signs.left_behind(part.uuid, part.handle)
        return tuple(found)

    def device_files(self, uuids: Collection[str]) -> tuple[str, ...]:
        """The cards' own files and those every CUDA program opens; none without a card.

        Of an instance: its card's, and what opens it. Raises GpuProblem where a file is unknown.
        """
        found: list[str] = []
        for uuid, device in zip(self._uuids, self._devices, strict=True):
            parts = [one for one in self._instances.get(uuid, ()) if one.uuid in uuids]
            if uuid not in uuids and not parts:
                continue
            try:
                found += self._asker.ask(uuid, partial(self._files, device, parts))
            except (self._nvml.NVMLError, Silent) as problem:
                raise GpuProblem(f"GPU {uuid} does not say which file it is: {problem}") from None
        return (*found, *CONTROL_FILES) if found else ()

    def _files(self, device: Any, parts: Sequence[Instance]) -> tuple[str, ...]:
        minor = self._nvml.nvmlDeviceGetMinorNumber(device)
        opening = [name for part in parts for name in access_files(self._nvml, part.handle, minor)]
        return (f"/dev/nvidia{minor}", *opening)

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


def _part(card: DeviceFacts, instance: Instance) -> DeviceFacts:
    return DeviceFacts(
        uuid=instance.uuid,
        index=card.index,
        model=instance.model,
        memory_mib=instance.memory_mib,
        parent=card.uuid,
        milli=instance.milli,
    )
