"""Real agents as processes against a real HTTP portal; every process is gone afterwards."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.config import Options
from scheduler.agent.news import hint_address
from scheduler.agent.runtime import killing, processes
from scheduler.agent.spool import Spool
from scheduler.wire.messages import Assignment, Code, Launch
from tests.agent.portal import TOKEN, Portal

ROOT = Path(__file__).resolve().parents[2]
_fences = itertools.count(1)
FAST = ["--hold-s", "5", "--sample-s", "0.3", "--heartbeat-s", "1", "--retry-cap-s", "0.3"]
# Quoted in single quotes it is one word of a shell.
SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(0.7)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


class Agent:
    """One agent process and its state folder."""

    def __init__(self, portal: Portal, state: Path, name: str) -> None:
        self.portal = portal
        self.state = state
        self.name = name
        self.process: subprocess.Popen[bytes] | None = None
        self.log = state.with_suffix(".log")

    def enrol(self, *options: str, gpus: int = 2, token: str = TOKEN) -> int:
        done = self._call(
            "enrol",
            "--server",
            self.portal.url,
            "--name",
            self.name,
            "--token",
            token,
            "--simulated-gpus",
            str(gpus),
            *options,
        )
        return done.wait(30)

    def start(self, *options: str, file_git: bool = True) -> None:
        git = ["--allow-file-git"] if file_git else []
        self.process = self._call("run", *FAST, *git, *options)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(10)
        self.process = None
        return code

    def _call(self, command: str, *options: str) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "scheduler.agent",
                    command,
                    "--state",
                    str(self.state),
                    *options,
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def clean_up(self) -> None:
        if self.process is not None:
            self.kill()
        mine = hint_address(Options(self.state, self.state))
        for note in Path("/dev/shm").glob(f"{mine}-*-contact"):
            note.unlink()
        if (self.state / "spool").is_dir():
            for slot in Spool(self.state / "spool").slots():
                supervisor, launch = slot.supervisor(), slot.launch()
                if supervisor and processes.is_alive(supervisor.pid, supervisor.start_ticks):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(supervisor.pid, signal.SIGKILL)
                if supervisor and launch:
                    killing.kill_remains(launch.marker, launch.uid, supervisor.cgroups)


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    portal = Portal()
    portal.start()
    yield portal
    portal.stop()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="trainyard-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o711)
        yield Path(place)


@pytest.fixture(scope="module")
def agents(portal: Portal, folder: Path) -> Iterator[Any]:
    """Makes enrolled, running agents by name; prints their logs when a test fails."""
    made: list[Agent] = []

    def make(name: str = "alpha", *options: str, gpus: int = 2, start: bool = True) -> Agent:
        agent = Agent(portal, folder / name, name)
        made.append(agent)
        assert agent.enrol(gpus=gpus) == 0, agent.log.read_text()
        if start:
            agent.start(*options)
        return agent

    yield make
    for agent in made:
        agent.clean_up()
        print(f"--- {agent.name}\n{agent.log.read_text()}")


@pytest.fixture(scope="module")
def agent(agents: Any) -> Agent:
    made: Agent = agents()
    return made


def assignment(script: str = "", **changes: Any) -> Assignment:
    """An assignment of one node with small limits; keywords replace fields of it or its launch."""
    launch = {
        "command": (),
        "env": {},
        "working_dir": "",
        "code": Code(script=script),
        "processes_per_node": 1,
        "cpus": 1,
        "memory_mib": 512,
        "time_limit_s": 60,
        "checkpoint_dir": "",
        "stop_signal": "SIGTERM",
        "stop_grace_s": 5,
        "disconnect_grace_s": 0,
        "usual_grace_s": 0,
        "secrets": (),
    }
    whole = {
        "fence": (fence := next(_fences)),
        "job_id": fence,
        "job_name": "digits",
        "team": "vision",
        "project": "vision/digits",
        "attempt_number": 1,
        "rank": 0,
        "addresses": ("127.0.0.1",),
        "device_uuids": (),
    }
    for key, value in changes.items():
        (launch if key in launch else whole)[key] = value
    return Assignment(launch=Launch(**launch), **whole)


def wait_until(condition: Any, timeout_s: float = 10.0) -> Any:
    """Poll something the portal does not hear about."""
    give_up_at = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < give_up_at, f"waited {timeout_s} s in vain"
        time.sleep(0.02)
    return answer
