"""What `manage.py up` does about trouble, mostly with a stack in name alone."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from portal.embedded import postgres, sample
from portal.embedded import stack as stacks
from portal.embedded.earlier import wait_for_earlier
from portal.embedded.places import ROOT, Places, StackProblem
from portal.embedded.programs import python
from portal.embedded.sample import SampleProblem
from portal.embedded.stack import Stack, StackOptions
from portal.embedded.supervisor import Supervisor
from portal.management.commands import up
from scheduler.agent.config import NodeIdentity, write_identity
from tests.servers import TWO_NODES, short_folder


class NoStack(Stack):
    """As if everything were up."""

    def start(self) -> None:
        self.address = "http://127.0.0.1:1"
        self.api_tokens = {"alice": "tyt_none"}


@pytest.fixture
def launch(monkeypatch, tmp_path, settings):
    """`up` with these words until it would stay; what it said."""
    settings.STATE_DIR, settings.RUN_DIR = tmp_path / "state", tmp_path / "run"
    monkeypatch.setattr(up, "Stack", NoStack)
    monkeypatch.setattr(up.signal, "signal", lambda *_: None)
    monkeypatch.setattr(up.Command, "_stay", lambda self, _: self.stdout.write("it stays"))

    def run(*words: str) -> str:
        said = io.StringIO()
        call_command("up", *words, stdout=said, stderr=said)
        return said.getvalue()

    return run


def test_a_first_job_that_does_not_succeed_stops_nothing(launch, monkeypatch):
    def wait(*_: object, **__: object) -> None:
        raise SampleProblem("job 7 was not over in time. Last word: the node is drained")

    monkeypatch.setattr(up, "run_sample", wait)
    said = launch("--demo")
    assert "did not succeed: job 7 was not over in time" in said and "it stays" in said
    with pytest.raises(CommandError, match="the node is drained"):
        launch("--demo", "--exit")


def test_a_portal_that_does_not_answer_the_first_job_stops_nothing(launch):
    said = launch("--demo")
    assert "did not succeed: the portal did not answer" in said and "it stays" in said


def test_the_next_start_follows_the_first_job_that_still_waits(monkeypatch):
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        job: dict[str, Any] = {"id": 7, "name": "digits-sample", "is_final": True, "wait": None}
        job |= {"state": "cancelled", "end": {"sentence": "Cancelled by alice."}}
        is_list = request.url.path.endswith("/jobs/")
        return httpx.Response(200, json={"items": [job]} if is_list else job)

    client = httpx.Client
    monkeypatch.setattr(
        sample.httpx,
        "Client",
        lambda **named: client(**named, transport=httpx.MockTransport(answer)),
    )
    with pytest.raises(SampleProblem, match="Cancelled by alice"):
        sample.run_sample("http://127.0.0.1:1", "tyt_none", joins=True, tell=print)
    assert "POST /api/v1/jobs/" not in asked
    assert "GET /api/v1/jobs/7/" in asked


@pytest.mark.stack
@pytest.mark.once  # Beside a server's database a node that called just now may be another's.
@pytest.mark.timeout(240)
def test_a_node_whose_folder_is_gone_comes_back(make_stack):
    """As where a back-up is put into an empty installation."""
    stack = make_stack(nodes=TWO_NODES[:1])
    stack.stop()
    shutil.rmtree(stack.places.node("alpha"))
    stack.start()
    assert stack.wait_for(stack.submit(script="true")["id"])["state"] == "succeeded"


@pytest.fixture
def folders() -> Iterator[Places]:
    with short_folder() as folder:
        places = Places(folder / "state", folder / "run")
        places.make()
        yield places


def test_a_start_waits_until_the_killed_one_has_let_go(folders):
    """What it removes as its last is the socket that is there by then."""
    told: list[str] = []
    wait_for_earlier(folders, told.append)
    assert not told
    with socket.socket(socket.AF_UNIX) as earlier:
        earlier.bind(str(folders.supervisor_socket))
        earlier.listen()
        with pytest.raises(StackProblem, match=f"still there; .*: kill -9 {os.getpid()}"):
            wait_for_earlier(folders, told.append, 0.2)
        end = threading.Timer(0.3, folders.supervisor_socket.unlink)
        end.start()
        wait_for_earlier(folders, told.append)
        assert not end.is_alive()
    words = f"the last start, which was killed, to end (process {os.getpid()}), until"
    assert [words in said for said in told] == [True, True]
    # A socket that nobody listens at any more is no obstacle.
    folders.supervisor_socket.touch()
    wait_for_earlier(folders, told.append)
    assert len(told) == 2


_LISTENS = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); "
_LISTENS += "s.listen(); print(flush=True); time.sleep(60)"


@pytest.fixture
def supervisord(folders) -> Iterator[Callable[[Path], subprocess.Popen[bytes]]]:
    """One in name alone, which nobody has told to end, with the configuration of a folder."""
    with contextlib.ExitStack() as ended:

        def start(state: Path) -> subprocess.Popen[bytes]:
            words = [str(folders.supervisor_socket), "supervisor.supervisord"]
            words += ["-c", str(state / "supervisord.conf")]
            command = python("-S", "-c", _LISTENS, *words)
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            ended.callback(process.communicate)
            ended.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline()
            return process

        yield start


def test_one_that_was_never_told_to_end_is_told(folders, supervisord):
    process = supervisord(folders.state)
    wait_for_earlier(folders, lambda _: None, 30)
    assert process.wait() == -signal.SIGTERM


def test_one_of_another_folder_is_not_waited_for_and_goes_on(folders, supervisord, tmp_path):
    process = supervisord(tmp_path)
    with pytest.raises(StackProblem, match=f"{tmp_path} .*TRAINYARD_RUN_DIR"):
        wait_for_earlier(folders, pytest.fail)
    assert process.poll() is None


def test_a_supervisord_that_does_not_answer_is_named(folders):
    supervisor = Supervisor(folders)
    for ask in (supervisor.fatal, lambda: supervisor.start_program("web")):
        with pytest.raises(StackProblem, match=r"supervisord\.log"):
            ask()


def signalled(*numbers: int, before: str = "") -> str:
    """What becomes of a program that heeds signals as `up` does and gets these."""
    program = f"""
import os, signal
from portal.management.commands.up import _heed_signals
# Whoever runs these tests may ignore some, which children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
{before}
_heed_signals()
try:
    for number in {list(map(int, numbers))}:
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            print("asked to end")
    print("in order")
except KeyboardInterrupt:
    print("cut short")
"""
    done = subprocess.run(
        python("-c", program), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return " ".join(done.stdout.split())


def test_signals_end_it_once_and_in_order():
    assert signalled(signal.SIGINT, signal.SIGTERM, signal.SIGINT) == "asked to end in order"
    assert signalled(signal.SIGHUP) == "asked to end in order"
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    assert signalled(signal.SIGHUP, before=ignored) == "in order"


def test_a_node_that_does_not_stay_up_is_told_of_once(folders, monkeypatch):
    class Fatal(Supervisor):
        is_alive = True

        def fatal(self) -> list[str]:
            return ["node-local"]

    monkeypatch.setattr(stacks, "Supervisor", Fatal)
    said: list[str] = []
    spares = Stack(folders, StackOptions(needs_nodes=False), tell=said.append)
    spares.check()
    spares.check()
    assert len(said) == 1 and "node-local.log" in said[0] and "goes on" in said[0]
    with pytest.raises(StackProblem, match=r"node-local\.log"):
        Stack(folders, StackOptions()).check()


def test_the_greeting_tells_what_is(launch, settings):
    """What the node was enrolled with, and a database of the shell's."""
    node = Places(settings.STATE_DIR, settings.RUN_DIR).node("local")
    assert "simulated GPUs" not in launch("--simulated-gpus", "4")
    write_identity(node, NodeIdentity("", 1, "local", "default", "tya_none", simulated_gpus=8))
    settings.DATABASE_URL = ""
    assert "has 8 simulated GPUs" in (said := launch("--simulated-gpus", "4"))
    assert "DATABASE_URL" not in said
    settings.DATABASE_URL = "postgres:///elsewhere"
    assert "the database is" in (said := launch()) and "as DATABASE_URL says" in said


def test_trouble_with_files_is_no_traceback(launch, monkeypatch):
    """A lock of root's, say, or a disk that is full."""

    def refuse(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "up.lock")

    monkeypatch.setattr(NoStack, "start", refuse)
    with pytest.raises(CommandError, match=r"up\.lock.*state and .*run are this user's"):
        launch()


def test_a_throw_away_postgres_that_does_not_start_or_died_leaves_nothing(monkeypatch):
    called: list[str] = []

    def fail(self: postgres.Cluster, program: str, *words: str) -> None:
        called.append(words[-1] if program == "pg_ctl" else program)
        if called[-1] == "stop" or (called[-1] == "start" and does_not_start):
            raise RuntimeError(f"pg_ctl: {words[-1]}")

    monkeypatch.setattr(postgres, "find_binaries", lambda: ROOT)
    monkeypatch.setattr(postgres.Cluster, "_run", fail)
    does_not_start = True
    with pytest.raises(RuntimeError, match="pg_ctl: start"), (one := postgres.Cluster()):
        pass
    assert called == ["initdb", "start", "stop"] and not one.folder.exists()
    does_not_start = False
    with postgres.Cluster() as one:
        assert one.folder.exists()
    assert not one.folder.exists()
