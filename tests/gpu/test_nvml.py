"""Real devices: inventory, samples, and that a job sees exactly the cards it was granted."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from scheduler.agent.gpus import GpuProblem, Holding, NvmlGpus

pytestmark = pytest.mark.gpu

COUNT_DEVICES = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) in (0, 100), "cuInit"
count = ctypes.c_int(0)
cuda.cuDeviceGetCount(ctypes.byref(count))
found = []
for index in range(count.value):
    device, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    cuda.cuDeviceGetUuid_v2(ctypes.byref(name), device)
    digits = bytes(name).hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    found.append("GPU-" + "-".join(parts))
print(" ".join(found))
"""


@pytest.fixture(scope="module")
def gpus() -> NvmlGpus:
    try:
        found = NvmlGpus()
    except GpuProblem as problem:
        pytest.skip(f"no NVML device: {problem}")
    if not found.inventory():
        pytest.skip("no NVML device: the driver lists none")
    return found


def test_the_inventory_is_plausible(gpus: NvmlGpus) -> None:
    devices = gpus.inventory()
    assert [device.index for device in devices] == list(range(len(devices)))
    assert len({device.uuid for device in devices}) == len(devices)
    for device in devices:
        assert device.uuid.startswith(("GPU-", "MIG-")) and not device.simulated
        assert device.model and device.memory_mib > 1000
    assert gpus.driver[0].isdigit()


def test_samples_are_plausible_and_name_the_holder(gpus: NvmlGpus) -> None:
    first = gpus.inventory()[0]
    samples = gpus.sample({first.uuid: Holding(fence=5, busy_cores=1.0, held_s=1.0)})
    assert len(samples) == len(gpus.inventory())
    assert samples[0].fence == 5
    for sample in samples:
        assert sample.gpu_percent is None or 0 <= sample.gpu_percent <= 100
        assert 0 <= sample.memory_used_mib <= first.memory_mib * 2
        assert 1 < sample.power_watts < 3000 and 0 < sample.temperature_c < 120


def visible(devices: str) -> list[str]:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no CUDA library: libcuda.so.1 cannot be loaded")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": devices}
    done = subprocess.run(
        [sys.executable, "-c", COUNT_DEVICES],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_a_program_sees_exactly_the_granted_device(gpus: NvmlGpus) -> None:
    for device in gpus.inventory():
        assert visible(device.uuid) == [device.uuid]


def test_a_program_without_a_grant_sees_none(gpus: NvmlGpus) -> None:
    assert visible("") == []
