"""What nodes read of their devices and of themselves. Units as in `messages.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One reading of one device; `fence` names the attempt that holds it, None when free.

    None is what the driver does not tell, as `gpu_percent` of MIG instances. Slowed: heat, or the
    limit of its power, holds its clocks down.
    """

    uuid: str
    at: float
    gpu_percent: float | None
    memory_used_mib: int
    power_watts: float
    temperature_c: float
    fence: int | None = None
    slowed_by_heat: bool | None = None
    slowed_by_power: bool | None = None


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading of the machine itself."""

    at: float
    cpu_percent: float
    memory_used_mib: int
    scratch_free_mib: int
