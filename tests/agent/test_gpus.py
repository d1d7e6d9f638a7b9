"""Simulated devices: plausible, steady, and always called simulated."""

from __future__ import annotations

import time
from pathlib import Path

from scheduler.agent.gpus import Holding, SimulatedGpus, open_gpus
from scheduler.agent.node.readings import Readings


def test_they_look_like_the_model_and_say_what_they_are() -> None:
    gpus = SimulatedGpus("node-1", 3, "NVIDIA A100-SXM4-80GB")
    devices = gpus.inventory()
    assert [device.index for device in devices] == [0, 1, 2]
    assert all(device.simulated and device.memory_mib == 81_920 for device in devices)
    assert devices == SimulatedGpus("node-1", 3, "NVIDIA A100-SXM4-80GB").inventory()
    other = SimulatedGpus("node-2", 3, "NVIDIA A100-SXM4-80GB").inventory()
    assert not {device.uuid for device in devices} & {device.uuid for device in other}


def test_readings_rise_with_work_and_stay_within_the_card() -> None:
    gpus = open_gpus("node-1", 2, "NVIDIA H100 80GB HBM3")
    busy_card, idle_card = gpus.inventory()
    for cores in (0.0, 0.3, 1.0, 64.0):
        holders = {busy_card.uuid: Holding(9, cores, 30.0)}
        busy, idle = gpus.sample(holders)
        assert busy.gpu_percent is not None
        assert 0 <= busy.gpu_percent <= 100 and (busy.gpu_percent > 20) == (cores > 0.2)
        assert 0 < busy.memory_used_mib < busy_card.memory_mib
        assert 0 < busy.power_watts <= 700 and 25 < busy.temperature_c < 90
        assert busy.fence == 9 and idle.fence is None
        assert idle.uuid == idle_card.uuid
        assert idle.gpu_percent == 0 and idle.power_watts < 100


def test_readings_come_as_often_as_wanted_and_not_on_all_nodes_at_once(tmp_path: Path) -> None:
    waits = []
    for number in range(100):
        readings = Readings(tmp_path, SimulatedGpus(f"node-{number}", 1, "NVIDIA L4"))
        assert readings.due_at(1.0) < time.monotonic(), "the first ones at once"
        readings.take({})
        waits.append(readings.due_at(10.0) - readings.taken_at)
    assert 9.0 <= min(waits) < 9.5 and 10.5 < max(waits) <= 11.0
