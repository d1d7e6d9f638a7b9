"""The one-file agent: built from this checkout, it runs a job without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scheduler.agent.__main__ import Exit
from scheduler.states import EndReason
from tests.agent.conftest import ROOT, assignment
from tests.agent.portal import TOKEN, Portal

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def package(folder: Path) -> Path:
    target = folder / "trainyard-agent.pyz"
    builder = ROOT / "deploy" / "build_agent.py"
    command = [sys.executable, str(builder), "--output", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def start(package: Path, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "SHIV_ROOT": str(folder / "shiv"),
        "TRAINYARD_ENROL_TOKEN": TOKEN,
    }
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(package), *arguments],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_it_holds_the_agent_and_no_server(package: Path) -> None:
    names = zipfile.ZipFile(package).namelist()
    roots = {name.split("/")[1] for name in names if name.startswith("site-packages/")}
    assert {"scheduler", "psutil", "pynvml.py"} <= roots
    assert not roots & {"django", "portal", "accounts", "celery", "httpx", "numpy"}
    inside = {name.split("/")[2] for name in names if name.startswith("site-packages/scheduler/")}
    assert inside - {""} == {"__init__.py", "failpoints.py", "states", "wire", "agent"}


def test_it_explains_itself(package: Path, folder: Path) -> None:
    with start(package, folder, "preflight", "--help") as process:
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "--simulated-gpus" in said


def test_it_enrols_and_runs_a_job(package: Path, folder: Path, portal: Portal) -> None:
    line = (
        "enrol",
        "--run",
        "--server",
        portal.url,
        "--name",
        "packed",
        "--state",
        str(folder / "packed"),
        "--simulated-gpus",
        "1",
    )
    with start(package, folder, *line) as process:
        try:
            portal.wait(lambda: "packed" in portal.nodes, what="the enrolment")
            report, log = portal.outcome("packed", assignment("echo from the package"))
        finally:
            process.terminate()
            said = process.communicate(timeout=20)[0]
    assert process.returncode == Exit.DONE, said
    assert (report.end_reason, log) == (EndReason.COMPLETED, "from the package\n")
