"""What a job with a part of a card is told, and what a card with several holders reports."""

from __future__ import annotations

from pathlib import Path

from scheduler.agent.config import Options
from scheduler.agent.gpus.face import Holding
from scheduler.agent.gpus.simulated import SimulatedGpus
from scheduler.agent.setup.environment import Places, shared_environment
from tests.agent.conftest import assignment

PLACES = Places("/w", "/s", "/o", "/c", "")


def environment(**changes):
    order = assignment("env", device_uuids=("GPU-1",), **changes)
    options = Options(Path(), Path(), library_path=("/opt/driver/lib64",))
    return shared_environment(order, PLACES, options, master_port=1, user="trainyard")


def test_a_part_is_told_its_share_of_the_card():
    found = environment(gpu_milli=250, gpu_memory_mib=20480)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert found["TRAINYARD_GPU_MILLI"] == "250"
    assert found["TRAINYARD_GPU_MEMORY_MIB"] == "20480"
    assert found["TRAINYARD_GPU_MEMORY_FRACTION"] == "0.250"
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25.0"
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"


def test_a_whole_card_is_told_nothing_of_shares():
    found = environment()
    assert not [name for name in found if "MPS" in name or name.startswith("TRAINYARD_GPU")]


def test_a_card_of_several_is_nobodys_alone_and_works_for_all_of_them():
    one, other = Holding(3, 0.25, 60.0), Holding(4, 0.5, 30.0)
    assert one.beside(None) == one
    both = one.beside(other)
    assert (both.fence, both.busy_cores, both.held_s) == (None, 0.75, 60.0)
    gpus = SimulatedGpus("n", 1, "NVIDIA H200")
    uuid = gpus.inventory()[0].uuid
    sample = gpus.sample({uuid: both})[0]
    assert sample.fence is None and sample.gpu_percent > 60


def test_it_finds_the_drivers_libraries_and_a_name():
    found = environment()
    assert found["LD_LIBRARY_PATH"] == "/opt/driver/lib64"
    assert found["USER"] == found["LOGNAME"] == "trainyard"
