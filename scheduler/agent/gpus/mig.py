"""MIG instances of a card, as its driver tells them: each is a device that a job may get alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MIB = 1024 * 1024
_WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance: its handle, UUID and name, its memory, and its part of the card's compute."""

    handle: Any
    uuid: str
    model: str
    memory_mib: int
    milli: int


def is_in_mig_mode(nvml: Any, device: Any) -> bool:
    """Whether programs can use the card through instances alone."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def instances_of(nvml: Any, device: Any, card_model: str) -> Iterator[Instance]:
    """The instances of a card in MIG mode; places without one are passed over."""
    most = nvml.nvmlDeviceGetMaxMigDeviceCount(device)
    for place in range(most):
        try:
            handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, place)
        except nvml.NVMLError:
            continue
        about = nvml.nvmlDeviceGetAttributes_v2(handle)
        uuid = nvml.nvmlDeviceGetUUID(handle)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
        yield Instance(
            handle,
            uuid.decode() if isinstance(uuid, bytes) else uuid,
            mig_model(card_model, _profile(about)),
            memory // _MIB,
            part_of(about.computeInstanceSliceCount, most),
        )


def mig_model(card_model: str, profile: str) -> str:
    """What such an instance is called where prices, quotas and jobs name models."""
    return f"{card_model} MIG {profile}"


def part_of(slices: int, most: int) -> int:
    """Thousandths of the card, rounded down, so that all of them are never more than it."""
    return max(1, min(slices, most) * _WHOLE_MILLI // most)


def _profile(about: Any) -> str:
    """Such as `1g.10gb`; `1c.3g.40gb` for a part of a larger instance. NVIDIA rounds sizes up."""
    compute, whole = about.computeInstanceSliceCount, about.gpuInstanceSliceCount
    size = -(-about.memorySizeMB // 1024)
    shared = f"{compute}c." if compute < whole else ""
    return f"{shared}{whole}g.{size}gb"
