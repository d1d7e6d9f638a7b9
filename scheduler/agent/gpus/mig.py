"""MIG instances of a card, as its driver tells them: each is a device that a job may get alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.agent.gpus.face import GpuProblem

_MIB = 1024 * 1024
_WHOLE_MILLI = 1000
_CAPABILITIES = Path("/proc/driver/nvidia/capabilities")
_OPENING = Path("/dev/nvidia-caps")
_MINOR = re.compile(r"^DeviceFileMinor: (\d+)$", re.MULTILINE)


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


def access_files(nvml: Any, handle: Any, minor: int) -> tuple[str, ...]:
    """What opens this instance of the card /dev/nvidia`minor`: the file of the GPU instance, and
    that of the compute instance within.

    Raises NVMLError, and GpuProblem where the driver does not name them or they are not there.
    """
    whole = nvml.nvmlDeviceGetGpuInstanceId(handle)
    part = nvml.nvmlDeviceGetComputeInstanceId(handle)
    card = _CAPABILITIES / f"gpu{minor}" / "mig" / f"gi{whole}"
    try:
        told = [_MINOR.search((at / "access").read_text()) for at in (card, card / f"ci{part}")]
    except OSError as problem:
        raise GpuProblem(
            f"The driver names no file that opens the MIG instance: {problem}"
        ) from None
    files = [_OPENING / f"nvidia-cap{one[1]}" for one in told if one]
    if len(files) < len(told) or not all(file.exists() for file in files):
        raise GpuProblem(
            f"Files that open MIG instance gi{whole}/ci{part} of /dev/nvidia{minor} are missing in "
            f"{_OPENING}. Run `nvidia-smi -L` on the node as root, which makes them."
        )
    return tuple(str(file) for file in files)


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
