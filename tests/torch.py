"""What the tests with a real torchrun share: whether it is there, its settings, the sample."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PYTHON = "/usr/bin/python3"
# Debian 12's torchrun fails over "no redirection" on Python 3.11; a redirection of a process that
# does not exist means the same and works.
TORCHRUN = ("/usr/bin/torchrun", "--redirects=9:1", "--tee=9:1", "--monitor_interval=0.1")
SAMPLE = Path(__file__).parents[1] / "deploy/samples/torchrun/train.py"
STEPS = 60
# All nodes of these tests are this host.
SETTINGS = {
    "GLOO_SOCKET_IFNAME": "lo",
    "STEPS": str(STEPS),
    "STEP_S": "0.05",
    "SAVE_EVERY": "5",
}
_LOSS = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)


def need_torch() -> None:
    """Skip where the system's Python has no PyTorch."""
    if not Path(TORCHRUN[0]).exists():
        pytest.skip("needs torchrun: apt-get install --no-install-recommends python3-torch")


def losses(text: str) -> dict[int, float]:
    """Loss by step, from the sample's output."""
    return {int(step): float(loss) for step, loss in _LOSS.findall(text)}


def undisturbed(folder: Path) -> dict[int, float]:
    """The sample's losses on one rank, without Trainyard."""
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    done = subprocess.run(
        [PYTHON, str(SAMPLE)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **SETTINGS, **alone, "STEP_S": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = losses(done.stdout)
    assert len(found) == STEPS
    return found


def shared_sample(folder: Path) -> Path:
    """A copy of the sample that every job's user may read, below a folder they can pass."""
    place = folder / "train.py"
    shutil.copyfile(SAMPLE, place)
    place.chmod(0o644)
    return place
