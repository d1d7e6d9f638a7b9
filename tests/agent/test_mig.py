"""MIG instances: from the driver's answers, and simulated ones."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from scheduler.agent.gpus.asking import Asker
from scheduler.agent.gpus.face import GpuProblem, Holding
from scheduler.agent.gpus.mig import instances_of, is_in_mig_mode, part_of
from scheduler.agent.gpus.nvml import NvmlGpus
from scheduler.agent.gpus.signs import Signs
from scheduler.agent.gpus.simulated import SimulatedGpus

CARD = "NVIDIA H100 80GB HBM3"


class NVMLError(Exception):
    """What the library raises."""


class Driver:
    """As much of NVML as has to do with MIG: a card with instances at places 0 and 2 of seven."""

    NVML_DEVICE_MIG_ENABLE = 1
    NVMLError = NVMLError
    about = {0: (1, 1, 9984), 2: (1, 3, 40448)}

    def nvmlDeviceGetMigMode(self, device):
        if device != "card":
            raise NVMLError
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, device):
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device, place):
        if place not in self.about:
            raise NVMLError
        return place

    def nvmlDeviceGetAttributes_v2(self, handle):
        compute, whole, mib = self.about[handle]
        return SimpleNamespace(
            computeInstanceSliceCount=compute, gpuInstanceSliceCount=whole, memorySizeMB=mib
        )

    def nvmlDeviceGetUUID(self, handle):
        return f"MIG-{handle}".encode()

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=self.about[handle][2] << 20)


def test_the_driver_says_which_instances_there_are():
    nvml = Driver()
    assert is_in_mig_mode(nvml, "card") and not is_in_mig_mode(nvml, "another")
    found = list(instances_of(nvml, "card", CARD))
    assert [(one.uuid, one.model, one.memory_mib, one.milli) for one in found] == [
        ("MIG-0", f"{CARD} MIG 1g.10gb", 9984, 142),
        ("MIG-2", f"{CARD} MIG 1c.3g.40gb", 40448, 142),
    ]


def test_instances_are_read_with_their_card():
    nvml = Driver()
    for name, answer in (
        ("nvmlDeviceGetCurrentClocksEventReasons", 0x4), ("nvmlDeviceGetPowerUsage", 90_000),
        ("nvmlDeviceGetTemperature", 41),
        ("nvmlDeviceGetMemoryInfo", SimpleNamespace(total=80 << 30, used=3 << 30)),
    ):  # fmt: skip
        setattr(nvml, name, lambda *_, said=answer: said)
    nvml.NVMLError_NotSupported = NVMLError
    nvml.NVML_TEMPERATURE_GPU = nvml.nvmlMemory_v2 = 0
    nvml.nvmlClocksEventReasonHwThermalSlowdown = nvml.nvmlClocksEventReasonSwThermalSlowdown = 0x20
    nvml.nvmlClocksEventReasonSwPowerCap = nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown = 0x4

    def blind(device):
        raise NVMLError

    nvml.nvmlDeviceGetUtilizationRates = blind
    gpus = object.__new__(NvmlGpus)
    gpus._nvml, gpus._uuids, gpus._devices = nvml, ["GPU-0"], ["card"]
    gpus._asker, gpus._signs = Asker(), Signs(nvml)
    gpus._instances = {"GPU-0": tuple(instances_of(nvml, "card", CARD))}
    card, first, second = gpus.sample({"MIG-2": Holding(7, 1.0, 1.0)})
    assert (card.gpu_percent, card.power_watts, card.memory_used_mib) == (None, 90, 3072)
    assert [(one.uuid, one.fence) for one in (first, second)] == [("MIG-0", None), ("MIG-2", 7)]
    # Clocks are the card's.
    assert (second.slowed_by_heat, second.slowed_by_power) == (False, True)
    assert (second.gpu_percent, second.temperature_c, second.memory_used_mib) == (None, 41, 3072)


def opened(path, monkeypatch, *minors: tuple[str, str]):
    """Files that the driver names, as (folder, minor); all of them are there."""
    for folder, minor in minors:
        access = path / "capabilities" / "gpu3" / "mig" / folder / "access"
        access.parent.mkdir(parents=True, exist_ok=True)
        access.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
        (path / "caps").mkdir(exist_ok=True)
        (path / "caps" / f"nvidia-cap{minor}").touch()
    monkeypatch.setattr("scheduler.agent.gpus.mig._CAPABILITIES", path / "capabilities")
    monkeypatch.setattr("scheduler.agent.gpus.mig._OPENING", path / "caps")


def test_a_job_on_an_instance_is_shown_its_cards_file_and_what_opens_it(tmp_path, monkeypatch):
    nvml = Driver()
    nvml.nvmlDeviceGetMinorNumber = lambda device: 3
    nvml.nvmlDeviceGetGpuInstanceId = lambda place: place + 5
    nvml.nvmlDeviceGetComputeInstanceId = lambda place: 1
    opened(tmp_path, monkeypatch, ("gi5", "48"), ("gi5/ci1", "50"))
    gpus = object.__new__(NvmlGpus)
    gpus._nvml, gpus._uuids, gpus._devices = nvml, ["GPU-0"], ["card"]
    gpus._asker = Asker()
    gpus._instances = {"GPU-0": tuple(instances_of(nvml, "card", CARD))}
    caps = tmp_path / "caps"
    found = gpus.device_files(["MIG-0"])
    assert found[:3] == ("/dev/nvidia3", f"{caps}/nvidia-cap48", f"{caps}/nvidia-cap50")
    assert "/dev/nvidiactl" in found and gpus.device_files(["MIG-9"]) == ()
    with pytest.raises(GpuProblem, match="names no file"):
        gpus.device_files(["MIG-2"])
    (caps / "nvidia-cap50").unlink()
    with pytest.raises(GpuProblem, match="nvidia-smi -L"):
        gpus.device_files(["MIG-0"])


def test_all_instances_are_never_more_than_their_card():
    for most in (2, 4, 7):
        assert sum(part_of(1, most) for _ in range(most)) <= 1000
    assert part_of(3, 7) + part_of(4, 7) <= 1000 == part_of(7, 7)


def test_simulated_cards_are_cut_as_a_file_says(tmp_path):
    (tmp_path / "simulated-mig.json").write_text(json.dumps({"1": ["3g.40gb", "4g.40gb"]}))
    gpus = SimulatedGpus("n", 2, CARD, tmp_path / "simulated-faults.json")
    whole, card, *parts = gpus.inventory()
    assert (whole.parent, card.parent) == ("", "") and whole.model == card.model == CARD
    assert [(p.parent, p.index, p.model, p.milli) for p in parts] == [
        (card.uuid, 1, f"{CARD} MIG 3g.40gb", 428),
        (card.uuid, 1, f"{CARD} MIG 4g.40gb", 571),
    ]
    (tmp_path / "simulated-mig.json").write_text(json.dumps({"1": ["half"]}))
    with pytest.raises(GpuProblem, match="3g"):
        SimulatedGpus("n", 2, CARD, tmp_path / "x")
    assert len({facts.uuid for facts in gpus.inventory()}) == 4
