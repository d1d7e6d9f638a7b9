"""`manage.py up` as a person uses it: first start, second start, Ctrl-C, a killed launcher."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from portal.embedded import places
from portal.embedded.places import Places, StackProblem, file_system_of
from tests.servers import end_leftovers

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]


class Launcher:
    """A running `manage.py up` and what it says."""

    def __init__(self, state: Path, run: Path, *words: str) -> None:
        environment = {**os.environ, "TRAINYARD_STATE_DIR": str(state)}
        environment |= {"TRAINYARD_RUN_DIR": str(run), "DATABASE_URL": "", "REDIS_URL": ""}
        environment["DJANGO_SETTINGS_MODULE"] = "portal.settings.embedded"
        self.said = state.parent / f"up-{time.monotonic_ns()}.out"
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--simulated-gpus", "2", *words],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, pattern: str, timeout_s: float = 120) -> re.Match[str]:
        deadline = time.monotonic() + timeout_s
        while True:
            text = self.said.read_text(encoding="utf-8")
            found = re.search(pattern, text)
            if found:
                return found
            assert self.process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.1)

    def programs(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A deep one: sockets must not lie in it."""
    top = Path(tempfile.mkdtemp(prefix="trainyard-", dir="/tmp"))
    top.chmod(0o711)
    deep = top / ("deep-" * 12) / ("folder " * 8)
    deep.mkdir(parents=True)
    yield deep
    end_leftovers(str(top))
    shutil.rmtree(top, ignore_errors=True)


def gone(processes: list[psutil.Process], timeout_s: float = 30) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    return not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def test_first_start_second_start_and_the_ends(folder):
    state, run = folder / "state", Path(tempfile.mkdtemp(prefix="trainyard-run-", dir="/tmp"))
    first = Launcher(state, run)
    address = first.wait_for(r"Trainyard is up: (http://127\.0\.0\.1:\d+)")[1]
    password = first.wait_for(r"admin\s+(\S+)\s+administrator")[1]
    first.wait_for(r"Ctrl-C stops everything")
    assert httpx.get(f"{address}/readyz").json()["status"] == "ready"
    _keeps_its_secrets(state, run, password)

    second = Launcher(state, run)
    assert second.process.wait(timeout=60) == 0
    assert f"already running at {address}" in second.said.read_text()

    programs = first.programs()
    assert len(programs) >= 6
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(timeout=90) == 0
    assert gone(programs)

    third = Launcher(state, run)
    assert third.wait_for(r"Trainyard is up: (\S+)")[1] == address
    assert "administrator" not in third.said.read_text()
    third.wait_for(r"Ctrl-C stops everything")
    programs = third.programs()
    third.process.kill()
    third.process.wait(timeout=10)
    # Nobody is left to stop them: the kernel's signal at the parent's death does. A start at once
    # waits for that, and keeps its port and its socket.
    fourth = Launcher(state, run)
    assert fourth.wait_for(r"Trainyard is up: (\S+)")[1] == address
    assert gone(programs, timeout_s=0)
    fourth.wait_for(r"Ctrl-C stops everything")
    programs = fourth.programs()
    fourth.process.kill()
    fourth.process.wait(timeout=10)
    assert gone(programs, timeout_s=60)
    shutil.rmtree(run, ignore_errors=True)


def _keeps_its_secrets(state: Path, run: Path, password: str) -> None:
    assert password in (state / "accounts.txt").read_text(encoding="utf-8")
    for name in ("accounts.txt", "secret_key", "trainyard.sqlite3", "nodes/local/node.json"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(state.stat().st_mode) == 0o711
    assert stat.S_IMODE((run / "valkey.sock").stat().st_mode) == 0o700
    for name in ("files", "logs"):
        path = state / name
        assert not path.exists() or stat.S_IMODE(path.stat().st_mode) == 0o700, name


def test_a_network_file_system_is_refused(tmp_path, monkeypatch):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:20 / / rw - ext4 /dev/vda rw\n23 22 0:21 / {tmp_path}/far rw - nfs4 host:/x rw\n"
    )
    monkeypatch.setattr(places, "_MOUNTS", mounts)
    assert file_system_of(tmp_path) == "ext4"
    with pytest.raises(StackProblem, match="network file system"):
        Places(tmp_path / "far" / "state", tmp_path / "run").make()


def test_a_missing_broker_says_what_to_install(monkeypatch):
    from portal.embedded import broker

    monkeypatch.setattr(broker, "_from_wheel", list)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(StackProblem, match="REDIS_URL"):
        broker.find_server()


def test_a_taken_port_is_named(folder):
    import socket

    where = Places(folder / "state", folder / "run")
    where.make()
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StackProblem, match="--port"),
    ):
        where.choose_address(taken.getsockname()[1])
