"""Real devices through NVML: inventory, samples, faults, the check, what a program sees."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from scheduler.agent.config import NodeIdentity
from scheduler.agent.gpus import Holding, NvmlGpus
from scheduler.agent.node.preflight import inspect_node
from scheduler.states import Trouble
from tests.gpu.seeing import seen

pytestmark = pytest.mark.gpu

Command = tuple[str, ...]


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


def visible(on_card: tuple[str, ...], devices: str) -> list[str]:
    """What a program sees that was granted `devices`, without Trainyard between."""
    done = subprocess.run(
        on_card,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": devices},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return seen(done.stdout)


def test_a_program_sees_exactly_the_granted_device(gpus: NvmlGpus, on_card: Command) -> None:
    for device in gpus.inventory():
        assert visible(on_card, device.uuid) == [device.uuid]


def test_a_program_without_a_grant_sees_none(gpus: NvmlGpus, on_card: Command) -> None:
    assert visible(on_card, "") == []


def test_an_idle_card_has_no_faults_and_passes_its_check(gpus: NvmlGpus) -> None:
    assert gpus.faults(()) == ()
    for device in gpus.inventory():
        done = subprocess.run(gpus.check_command(device.uuid), capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
    assert gpus.faults(()) == ()


def test_the_preflight_tries_each_card(gpus: NvmlGpus, tmp_path: Path) -> None:
    wish = NodeIdentity("http://127.0.0.1:9", 0, "node", "", "")
    found = {one.what: one for one in inspect_node(tmp_path, wish)}
    assert found["gpus"].is_ok and gpus.driver in found["gpus"].detail
    assert found["cuda"].is_ok, found["cuda"]


def test_what_no_job_holds_is_seen_and_told(gpus: NvmlGpus, on_card: Command) -> None:
    device = gpus.inventory()[0]
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": device.uuid,
        "MIB": "2048",
        "SECONDS": "60",
    }
    with subprocess.Popen(on_card, env=environment, stdout=subprocess.PIPE, text=True) as stranger:
        try:
            assert stranger.stdout is not None
            assert any(line.startswith("holds") for line in stranger.stdout)
            (fault,) = gpus.faults(())
            assert (fault.uuid, fault.kind) == (device.uuid, Trouble.NOT_RELEASED)
            assert str(stranger.pid) in fault.detail
            assert gpus.faults({device.uuid}) == ()
            assert gpus.sample({})[0].memory_used_mib >= 2048
        finally:
            stranger.kill()
    assert gpus.faults(()) == ()


def test_a_look_at_a_card_takes_little(gpus: NvmlGpus) -> None:
    """It is taken every second; the figure stands in the README."""
    began = time.perf_counter()
    for _ in range(50):
        gpus.sample({})
        gpus.faults(())
    each_ms = (time.perf_counter() - began) / 50 / len(gpus.inventory()) * 1000
    print(f"a sample and a look for faults: {each_ms:.2f} ms a card")
    assert each_ms < 50
