"""The real NVML bindings against a library that has the faults: what the agent makes of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("nvml_stub.c")
# One interpreter: the library is loaded once a process. Each line of input is a file of faults.
ASK = """
import json, os, sys, time
from dataclasses import asdict
from scheduler.agent.gpus import Holding, NvmlGpus
from scheduler.agent.gpus.asking import Asker
before, turns, waits = json.loads(sys.argv[1])
def show(faults):
    open(os.environ["NVML_STUB_FAULTS"] + ".new", "w").write(faults)
    os.replace(os.environ["NVML_STUB_FAULTS"] + ".new", os.environ["NVML_STUB_FAULTS"])
show(before)
gpus = NvmlGpus()
gpus._asker = Asker(*waits)
said = {"driver": gpus.driver, "devices": [asdict(d) for d in gpus.inventory()], "turns": []}
for faults, held, *rest_s in turns:
    show(faults)
    time.sleep(sum(rest_s))
    found = gpus.faults(held)
    samples = gpus.sample({"GPU-00000000": Holding(7, 1.0, 1.0)})
    said["turns"].append([[(f.uuid, f.kind, f.detail) for f in found], [s.uuid for s in samples]])
    said["samples"] = [asdict(s) for s in samples]
said["again"] = [asdict(d) for d in gpus.inventory()]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install gcc libc6-dev")
    folder = tmp_path_factory.mktemp("nvml")
    made = [compiler, "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run(made, check=True, timeout=60)
    return folder


def ask(
    library: Path, tmp_path: Path, *turns: tuple, before: str = "", waits: tuple = (30.0,)
) -> dict:
    """`before`: the faults as the agent starts; `waits`: in s, for an answer, and for silence."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps((before, turns, waits))],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "NVML_STUB_FAULTS": str(tmp_path / "faults"),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sound_cards_have_no_faults(library: Path, tmp_path: Path) -> None:
    said = ask(library, tmp_path, ("", []))
    assert said["driver"] == "999.1"
    assert [(d["uuid"], d["memory_mib"]) for d in said["devices"]] == [
        ("GPU-00000000", 8192),
        ("GPU-00000001", 8192),
    ]
    assert said["turns"] == [[[], ["GPU-00000000", "GPU-00000001"]]]
    assert [one["memory_used_mib"] for one in said["samples"]] == [0, 0], "not the reserve"


@pytest.mark.parametrize(
    ("fault", "kind", "detail"),
    [
        ("0 xid 48", "xid", "Xid 48: double-bit memory error"),
        ("0 hot 93", "hot", "93 C, and it slows down from 90 C"),
        ("0 hot 93\n0 slow 65", "hot", "93 C, and its hardware slows it down"),
        ("0 ecc 2", "ecc", "2 since the driver was loaded"),
        ("0 process 4711", "not_released", "such as 4711"),
        ("0 memory 700", "not_released", "700 MiB of its memory are taken and no process"),
        ("0 process 4711\n0 memory 700", "not_released", "such as 4711"),
    ],
)
def test_each_fault_is_seen(
    library: Path, tmp_path: Path, fault: str, kind: str, detail: str
) -> None:
    said = ask(library, tmp_path, (fault, []))
    [[uuid, found, words]] = said["turns"][0][0]
    assert (uuid, found) == ("GPU-00000000", kind) and detail in words


def test_a_card_that_fell_off_the_bus_is_named_and_the_other_still_read(
    library: Path, tmp_path: Path
) -> None:
    said = ask(library, tmp_path, ("", []), ("0 lost 1", []))
    faults, samples = said["turns"][1]
    assert [fault[:2] for fault in faults] == [["GPU-00000000", "lost"]]
    assert samples == ["GPU-00000001"]
    assert said["again"] == said["devices"], "it is lost, and no other than it was"


@pytest.mark.parametrize("fault", ["gone", "lost"])
def test_a_card_that_was_gone_before_the_agent_is_left_out_alone(
    library: Path, tmp_path: Path, fault: str
) -> None:
    said = ask(library, tmp_path, ("", []), before=f"0 {fault} 1")
    assert [(d["uuid"], d["index"]) for d in said["devices"]] == [("GPU-00000001", 1)]
    assert said["turns"] == [[[], ["GPU-00000001"]]] and said["again"] == said["devices"]


def test_an_xid_is_told_once_and_a_programs_own_never(library: Path, tmp_path: Path) -> None:
    said = ask(library, tmp_path, ("1 xid 79", []), ("1 xid 79", []), ("1 xid 31", []))
    assert [[fault[1] for fault in turn[0]] for turn in said["turns"]] == [["xid"], [], []]


def test_a_card_that_lacks_something_keeps_nothing_from_the_others(
    library: Path, tmp_path: Path
) -> None:
    faults = "0 deaf 1\n0 dark 1\n"
    said = ask(library, tmp_path, (faults + "1 xid 79", []), before=faults)
    [[found, samples]] = said["turns"]
    assert [fault[:2] for fault in found] == [["GPU-00000001", "xid"]]
    assert samples == ["GPU-00000000", "GPU-00000001"]


def test_a_card_that_does_not_tell_its_use_is_read_all_the_same(
    library: Path, tmp_path: Path
) -> None:
    first, second = ask(library, tmp_path, ("0 blind 1", []))["samples"]
    assert (first["gpu_percent"], second["gpu_percent"]) == (None, 37)
    assert (first["power_watts"], first["temperature_c"], first["fence"]) == (61, 40, 7)


@pytest.mark.parametrize(
    ("reasons", "slowed"),
    [(0, (False, False)), (0x20, (True, False)), (0x4, (False, True)), (0xA4, (True, True))],
)
def test_what_holds_the_clocks_down_is_read(
    library: Path, tmp_path: Path, reasons: int, slowed: tuple[bool, bool]
) -> None:
    said = ask(library, tmp_path, (f"0 slow {reasons}", []))
    first, second = said["samples"]
    assert (first["slowed_by_heat"], first["slowed_by_power"]) == slowed
    assert (second["slowed_by_heat"], second["slowed_by_power"]) == (False, False)
    assert said["turns"][0][0] == [], "no fault: its hardware does not say that it is too hot"


def test_processes_of_the_job_that_holds_the_card_are_no_fault(
    library: Path, tmp_path: Path
) -> None:
    said = ask(library, tmp_path, ("0 process 4711", ["GPU-00000000"]))
    assert said["turns"][0][0] == []


def test_an_mps_server_is_left_behind_by_nobody(library: Path, tmp_path: Path) -> None:
    server = tmp_path / "nvidia-cuda-mps-server"
    server.write_text("#!/bin/sh\nread never\n")
    server.chmod(0o700)
    with subprocess.Popen([server], stdin=subprocess.PIPE) as stays:
        said = ask(library, tmp_path, (f"0 process {stays.pid}\n0 memory 700", []))
        stays.communicate()
    assert said["turns"][0][0] == []


@pytest.mark.parametrize(
    ("fault", "held"),
    [
        ("0 memory 700", ["GPU-00000000"]),  # its job's own
        ("0 memory 100", []),  # what a driver keeps of an idle card
        ("0 hot 85\n0 slow 33", []),  # its software keeps it below its limit
        ("0 memory 700\n0 screen 99", []),  # of a screen's program
    ],
)
def test_what_is_as_it_should_be_is_no_fault(
    library: Path, tmp_path: Path, fault: str, held: list[str]
) -> None:
    said = ask(library, tmp_path, (fault, held))
    assert said["turns"][0][0] == []


def test_memory_is_seen_with_an_old_driver_and_forgotten_once_it_is_free(
    library: Path, tmp_path: Path
) -> None:
    said = ask(library, tmp_path, ("1 memory 4000", []), ("", []))
    [[uuid, kind, words]] = said["turns"][0][0]
    assert (uuid, kind) == ("GPU-00000001", "not_released") and "4000 MiB" in words
    assert said["turns"][1][0] == []


def test_a_card_that_hangs_holds_up_no_other(library: Path, tmp_path: Path) -> None:
    hangs = "0 hang 1\n"
    told = hangs + "1 xid 79"
    said = ask(
        library, tmp_path, ("0 hot 93", []), (hangs, []), (told, [], 1.4), ("", [], 1.4),
        waits=(0.6, 1.2),
    )  # fmt: skip
    hot, still, silent, again = (turn[0] for turn in said["turns"])
    assert [fault[:2] for fault in hot] == [["GPU-00000000", "hot"]]
    assert [fault[:2] for fault in still] == [["GPU-00000000", "hot"]], "as it was last"
    assert [fault[:2] for fault in silent] == [
        ["GPU-00000001", "xid"], ["GPU-00000000", "hot"], ["GPU-00000000", "lost"],
    ]  # fmt: skip
    assert again == []
    assert [turn[1] for turn in said["turns"][1:]] == [
        ["GPU-00000001"], ["GPU-00000001"], ["GPU-00000000", "GPU-00000001"],
    ]  # fmt: skip
    assert said["again"] == said["devices"]


def test_where_all_hang_only_the_first_is_called_lost(library: Path, tmp_path: Path) -> None:
    """The driver may have one lock; jobs on sound cards go on."""
    hangs = "0 hang 1\n1 hang 1"
    said = ask(library, tmp_path, (hangs, []), (hangs, [], 1.4), ("", []), waits=(0.6, 1.2))
    assert [fault[:2] for fault in said["turns"][1][0]] == [["GPU-00000000", "lost"]]
