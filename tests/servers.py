"""Real servers for tests: a broker, and whole stacks as `manage.py up` starts them.

Everything listens on loopback or on Unix sockets in temporary folders, and is gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from portal.embedded import broker
from portal.embedded.places import Places, free_port
from portal.embedded.programs import LocalNode, leashed
from portal.embedded.stack import Stack, StackOptions
from portal.embedded.temporary import FAST_CALLERS
from tests.laid import lay_tables

PERSONAS = ("admin", "alice", "bob", "lena", "chen", "carol", "finn", "olga")
TWO_NODES = (
    LocalNode("alpha", 8, cpus=16, memory_mib=32768, run_arguments=("--allow-file-git",)),
    LocalNode("beta", 8, cpus=16, memory_mib=32768, run_arguments=("--allow-file-git",)),
)


class LiveStack(Stack):
    """A stack with clients for its people."""

    def api(self, username: str = "alice") -> httpx.Client:
        """A client of `/api/v1` with a token that may do all this person may."""
        return httpx.Client(
            base_url=f"{self.address}/api/v1",
            headers={"Authorization": f"Bearer {self.api_tokens[username]}"},
            timeout=30,
        )

    def password(self, username: str) -> str:
        """To sign in on the pages."""
        return next(each.password for each in self.accounts if each.username == username)

    def browser(self, username: str = "alice") -> httpx.Client:
        """Signed in on the pages: a browser, as far as the portal can tell."""
        person = httpx.Client(base_url=self.address, timeout=30, follow_redirects=True)
        person.headers.update({"Origin": self.address, "Referer": f"{self.address}/"})
        person.get("/accounts/login/").raise_for_status()
        form = {"login": username, "password": self.password(username)}
        form["csrfmiddlewaretoken"] = person.cookies["csrftoken"]
        person.post("/accounts/login/", data=form).raise_for_status()
        return person

    def submit(self, username: str = "alice", **fields: Any) -> dict[str, Any]:
        """Submit a small job as this person; `fields` replace the defaults."""
        document = {
            "name": "flow",
            "project": "vision/digits",
            "pool": "default",
            "gpus_per_node": 1,
            "memory": "256MiB",
            "time_limit": "10m",
            **fields,
        }
        with self.api(username) as api:
            reply = api.post("/jobs/", json=document)
            assert reply.status_code == 201, reply.text
            job: dict[str, Any] = reply.json()
            return job

    def wait_for(
        self, job_id: int, *states: str, username: str = "alice", timeout_s: float = 120
    ) -> dict[str, Any]:
        """The job once it is in one of these states (any final one when none is named)."""
        deadline = time.monotonic() + timeout_s
        with self.api(username) as api:
            while True:
                reply = api.get(f"/jobs/{job_id}/")
                assert reply.status_code == 200, reply.text
                job: dict[str, Any] = reply.json()
                if job["state"] in states or (not states and job["is_final"]):
                    return job
                assert time.monotonic() < deadline, f"still {job['state']}: {job}"
                time.sleep(0.1)

    def log(self, job_id: int, rank: int = 0, username: str = "alice") -> str:
        """All lines of the latest attempt's log."""
        with self.api(username) as api:
            reply = api.get(f"/jobs/{job_id}/log/", params={"rank": rank})
            assert reply.status_code == 200, reply.text
            return "\n".join(reply.json()["lines"])


StackMaker = Callable[..., LiveStack]


@contextlib.contextmanager
def running_stack(
    nodes: tuple[LocalNode, ...] = TWO_NODES, **environment: str
) -> Iterator[LiveStack]:
    """A stack of its own in a temporary folder, with the demonstration's people; `{port}` in the
    environment is its own."""
    folder = Path(tempfile.mkdtemp(prefix="trainyard-", dir="/tmp"))
    # Jobs have user ids of their own; they must be able to pass.
    folder.chmod(0o711)
    port = free_port() or 0
    environment = {name: text.replace("{port}", str(port)) for name, text in environment.items()}
    environment |= lay_tables(folder / "state")
    options = StackOptions(
        port=port,
        nodes=nodes,
        environment={**FAST_CALLERS, "TRAINYARD_ALLOW_FILE_GIT": "true", **environment},
        with_demo=True,
        api_tokens_for=PERSONAS,
    )
    stack = LiveStack(Places(folder / "state", folder / "run"), options)
    try:
        with stack:
            yield stack
    finally:
        end_leftovers(str(folder))
        shutil.rmtree(folder, ignore_errors=True)


def end_leftovers(mark: str) -> None:
    """Kill what runs on behalf of a folder that is about to go: jobs outlive their stack."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = " ".join(process.cmdline()) + "\0".join(process.environ().values())
            if mark in words and process.pid != os.getpid():
                process.kill()


@pytest.fixture(scope="session")
def stack() -> Iterator[LiveStack]:
    """One stack with two nodes for every test that leaves it as it found it."""
    with running_stack() as live:
        yield live


@pytest.fixture
def make_stack() -> Iterator[StackMaker]:
    """Stacks of a test's own, for tests that break something: `make_stack(nodes=…, NAME=value)`."""
    with contextlib.ExitStack() as kept:

        def make(nodes: tuple[LocalNode, ...] = TWO_NODES, **environment: str) -> LiveStack:
            return kept.enter_context(running_stack(nodes, **environment))

        yield make


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """The address of a real broker on a Unix socket in this folder; gone afterwards."""
    (folder / "broker").mkdir(exist_ok=True)
    places = Places(folder, folder)
    process = subprocess.Popen(
        leashed(tuple(broker.server_arguments(places)), os.getpid()),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        assert broker.wait_until(places.broker_socket, answering=True), "the broker did not start"
        yield f"unix://{places.broker_socket}?db=0"
    finally:
        process.terminate()
        process.wait(timeout=10)


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """For sockets, whose paths have a hundred characters at most."""
    with tempfile.TemporaryDirectory(prefix="trainyard-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A real broker for all tests."""
    with short_folder() as folder, running_broker(folder) as url:
        yield url
