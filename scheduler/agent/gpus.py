"""The only door to NVML: inventory and samples of devices, real or simulated."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler.wire.messages import DeviceFacts, DeviceSample

_MIB = 1024 * 1024
_AMBIENT_C = 31.0
_WARMING_S = 40.0


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds a device: the attempt's fence and the processor cores it keeps busy."""

    fence: int
    busy_cores: float
    held_s: float


class GpuProblem(Exception):
    """The devices cannot be read; the text says what to do."""


class Gpus(Protocol):
    """Devices of a node behind one face."""

    driver: str

    def inventory(self) -> tuple[DeviceFacts, ...]:
        """All devices, in index order."""

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """One reading of each device; `holders` maps device UUIDs to who has them."""


class NvmlGpus:
    """Real devices. Raises GpuProblem when the driver does not answer."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
            self._devices = [
                pynvml.nvmlDeviceGetHandleByIndex(index)
                for index in range(pynvml.nvmlDeviceGetCount())
            ]
        except pynvml.NVMLError as error:
            raise GpuProblem(
                f"NVML does not answer ({error}). Install the NVIDIA driver and check that "
                "`nvidia-smi` works, or start with --simulated-gpus N to try without."
            ) from None

    def inventory(self) -> tuple[DeviceFacts, ...]:
        """All devices NVML lists."""
        return tuple(self._facts(index) for index in range(len(self._devices)))

    def _facts(self, index: int) -> DeviceFacts:
        device = self._devices[index]
        return DeviceFacts(
            uuid=_text(self._nvml.nvmlDeviceGetUUID(device)),
            index=index,
            model=_text(self._nvml.nvmlDeviceGetName(device)),
            memory_mib=self._nvml.nvmlDeviceGetMemoryInfo(device).total // _MIB,
        )

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """One reading of each device that answers; one that fell off the bus is left out."""
        found = []
        for device in self._devices:
            try:
                found.append(self._read(device, holders))
            except self._nvml.NVMLError:
                continue
        return tuple(found)

    def _read(self, device: Any, holders: Mapping[str, Holding]) -> DeviceSample:
        nvml = self._nvml
        uuid = _text(nvml.nvmlDeviceGetUUID(device))
        holder = holders.get(uuid)
        return DeviceSample(
            uuid=uuid,
            at=time.time(),
            gpu_percent=float(nvml.nvmlDeviceGetUtilizationRates(device).gpu),
            memory_used_mib=nvml.nvmlDeviceGetMemoryInfo(device).used // _MIB,
            power_watts=nvml.nvmlDeviceGetPowerUsage(device) / 1000,
            temperature_c=float(nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
            fence=holder.fence if holder else None,
        )


# Memory in MiB and board power in watts of models that are often simulated.
_KNOWN_MODELS = {
    "NVIDIA H200": (143_771, 700.0),
    "NVIDIA H100 80GB HBM3": (81_559, 700.0),
    "NVIDIA A100-SXM4-80GB": (81_920, 400.0),
    "NVIDIA A100-SXM4-40GB": (40_960, 400.0),
    "NVIDIA L40S": (46_068, 350.0),
    "NVIDIA L4": (23_034, 72.0),
    "Tesla T4": (15_360, 70.0),
}


class SimulatedGpus:
    """Devices that do not exist, flagged as such; their readings follow the job's real work."""

    driver = "simulated"

    def __init__(self, node_name: str, count: int, model: str) -> None:
        self._memory_mib, self._board_watts = _KNOWN_MODELS.get(model, (81_559, 500.0))
        self._facts = tuple(
            DeviceFacts(
                uuid=_simulated_uuid(node_name, index),
                index=index,
                model=model,
                memory_mib=self._memory_mib,
                simulated=True,
            )
            for index in range(count)
        )

    def inventory(self) -> tuple[DeviceFacts, ...]:
        """The devices, the same on every start of a node of this name."""
        return self._facts

    def sample(self, holders: Mapping[str, Holding]) -> tuple[DeviceSample, ...]:
        """Readings as a card would show them under the load its holder's processors have."""
        now = time.time()
        return tuple(self._reading(facts, holders.get(facts.uuid), now) for facts in self._facts)

    def _reading(self, facts: DeviceFacts, holder: Holding | None, now: float) -> DeviceSample:
        load = warmth = 0.0
        if holder is not None:
            load = min(1.0, holder.busy_cores) * (0.94 + 0.05 * math.sin(now / 7 + facts.index))
            warmth = 1 - math.exp(-holder.held_s / _WARMING_S)
        used = 0.005 + (0.1 + 0.55 * warmth if holder else 0.0)
        return DeviceSample(
            uuid=facts.uuid,
            at=now,
            gpu_percent=round(100 * load, 1),
            memory_used_mib=int(self._memory_mib * used),
            power_watts=round(self._board_watts * (0.1 + 0.8 * load), 1),
            temperature_c=round(_AMBIENT_C + 38 * load * warmth, 1),
            fence=holder.fence if holder else None,
        )


def open_gpus(node_name: str, simulated: int, model: str) -> Gpus:
    """The node's devices: simulated where asked for, else what NVML finds; may raise GpuProblem."""
    return SimulatedGpus(node_name, simulated, model) if simulated else NvmlGpus()


def _simulated_uuid(node_name: str, index: int) -> str:
    mark = hashlib.sha256(f"{node_name}/{index}".encode()).hexdigest()
    return f"GPU-SIM-{mark[:8]}-{mark[8:12]}-{mark[12:16]}-{mark[16:20]}-{mark[20:32]}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
