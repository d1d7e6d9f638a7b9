"""Jobs in namespaces of their own, with the real bubblewrap."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.config import ConfigProblem, Options
from scheduler.agent.node import preflight
from scheduler.agent.node.isolation import settle_isolation, try_sandbox
from scheduler.agent.runtime import processes
from scheduler.agent.runtime.records import SandboxPlan
from scheduler.agent.runtime.space import sandbox
from scheduler.states import EndReason, Isolation
from scheduler.wire.messages import Code, StopOrder
from tests.agent.conftest import SAVES, Agent, assignment, wait_until
from tests.agent.portal import Portal

_BWRAP = shutil.which("bwrap")
_UID = 64_000 if os.geteuid() == 0 else None
_PROBLEM = try_sandbox(_BWRAP, _UID) if _BWRAP else "bubblewrap is not installed"


def needs_sandbox(test: Any) -> Any:
    """Left out where the kernel lets nobody make namespaces; bubblewrap itself can be installed."""
    test = pytest.mark.skipif(bool(_PROBLEM), reason=f"no sandboxes here: {_PROBLEM}")(test)
    return pytest.mark.foreign(test) if _BWRAP and _PROBLEM else test


CANCEL = StopOrder(EndReason.CANCELLED_BY_USER, 5)


@pytest.fixture(scope="module")
def shared(folder: Path) -> Path:
    """A folder that jobs may write to, as a team's on a shared file system."""
    place = folder / "shared"
    place.mkdir()
    place.chmod(0o777)
    return place


@pytest.fixture(scope="module")
def agent(agents: Any, shared: Path) -> Agent:
    made: Agent = agents("alpha", "--isolation", "sandbox", "--share", str(shared))
    return made


@needs_sandbox
def test_the_node_says_how_it_keeps_jobs_apart(portal: Portal, agent: Agent) -> None:
    def told() -> str:
        return next((s.host.isolation for s in portal.nodes["alpha"].syncs if s.host), "")

    assert portal.wait(told) == "sandbox"


@needs_sandbox
def test_a_job_sees_neither_others_nor_the_agent(portal: Portal, agent: Agent) -> None:
    secret = "echo mine > kept; echo ready; while :; do sleep 0.05; done"
    other = assignment(secret)
    portal.assign("alpha", other)
    portal.wait(lambda: b"ready" in portal.logs[other.fence, 0], what="the neighbour")
    place = agent.state / "attempts" / f"{other.fence}-0"
    script = f"""
    ls {place} {agent.state}/node.json {agent.state}/spool 2>&1
    echo "processes: $(ls /proc | grep -c '^[0-9]')"
    echo "pid $$, user $(id -u), groups $(id -G)"
    ls /dev /home /root /var/lib 2>&1
    touch /usr/x /etc/x /x 2>&1
    echo "own: $(ls -d $PWD /tmp $TRAINYARD_OUTPUT_DIR $TRAINYARD_CHECKPOINT_DIR | wc -l)"
    echo hello > /tmp/a && cat $TMPDIR/a
    kill -9 -1 2>/dev/null; true
    """
    report, log = portal.outcome("alpha", assignment(script))
    assert report.end_reason == EndReason.COMPLETED, (report, log)
    assert log.count("No such file or directory") >= 5, log
    assert int(log.partition("processes: ")[2].split()[0]) <= 6
    assert "pid 2, user 6" in log or os.geteuid() != 0
    assert "nvidia" not in log and log.count("Read-only file system") == 3
    assert "own: 4" in log and "hello" in log
    neighbour = portal.nodes["alpha"].reports[other.fence]
    assert neighbour.end_reason is None
    portal.stop_attempt("alpha", other.fence, CANCEL)
    assert portal.ended("alpha", other.fence).end_reason == EndReason.CANCELLED_BY_USER


@needs_sandbox
def test_stop_signal_notice_and_exit_code_are_as_ever(portal: Portal, agent: Agent) -> None:
    script = """
    trap 'cat "$TRAINYARD_NOTICE_FILE"; exit 7' TERM
    echo ready; while :; do sleep 0.05; done
    """
    order = assignment(script)
    portal.assign("alpha", order)
    portal.wait(lambda: b"ready" in portal.logs[order.fence, 0])
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.PREEMPTED, 20))
    report = portal.ended("alpha", order.fence)
    assert (report.end_reason, report.exit_code) == (EndReason.PREEMPTED, 7)
    assert '"reason": "preempted"' in portal.logs[order.fence, 0].decode()


@needs_sandbox
def test_a_program_that_a_shell_started_has_its_grace(portal: Portal, agent: Agent) -> None:
    order = assignment(f"/usr/bin/python3 -c '{SAVES}' | tee copy\necho went on")
    portal.assign("alpha", order)
    portal.wait(lambda: b"ready" in portal.logs[order.fence, 0])
    asked_at = time.monotonic()
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.PREEMPTED, 20))
    report = portal.ended("alpha", order.fence)
    assert 0.7 < time.monotonic() - asked_at < 10
    assert (report.end_reason, report.exit_code) == (EndReason.PREEMPTED, 143)
    log = portal.logs[order.fence, 0].decode()
    assert "saved" in log and "went on" not in log


@needs_sandbox
def test_who_ignores_the_signal_is_killed_with_all_it_started(portal: Portal, agent: Agent) -> None:
    script = "trap '' TERM; (setsid sleep 300 &) ; echo ready; while :; do sleep 0.05; done"
    order = assignment(script)
    portal.assign("alpha", order)
    portal.wait(lambda: b"ready" in portal.logs[order.fence, 0])
    marker = f"TRAINYARD_SCRATCH_DIR={agent.state}/attempts/{order.fence}-0/scratch"
    assert len(processes.carrying(marker)) >= 4
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
    report = portal.ended("alpha", order.fence)
    assert (report.end_reason, report.exit_code) == (EndReason.CANCELLED_BY_USER, 137)
    assert processes.carrying(marker) == []


@needs_sandbox
@pytest.mark.parametrize(
    ("script", "code", "detail"),
    [("exit 5", 5, ""), ("kill -9 $$", 137, "SIGKILL"), ("kill -15 $$", 143, "SIGTERM")],
)
def test_ends_are_told_as_without(
    portal: Portal, agent: Agent, script: str, code: int, detail: str
) -> None:
    report, _ = portal.outcome("alpha", assignment(script))
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, code)
    assert detail in report.detail


@needs_sandbox
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": ("no-such-program",)}, "no-such-program"),
        ({"command": ("/etc/passwd",)}, "may not be executed"),
        ({"command": ("/bin/true",), "working_dir": "/nowhere"}, "working_dir"),
        ({"command": ("/bin/true",), "working_dir": "/var/lib"}, "is not shown to jobs"),
        ({"command": ("/bin/true",), "checkpoint_dir": "/var/tmp/cp"}, "checkpoint_dir"),
        ({"command": ("/bin/true",), "code": Code(folder="/")}, "code.folder"),
        ({"command": ("/proc/self/exe",)}, "not among the folders"),
    ],
)
def test_what_is_wrong_is_said_by_field(
    portal: Portal, agent: Agent, changes: dict[str, Any], words: str
) -> None:
    report, log = portal.outcome("alpha", assignment(**changes))
    assert report.end_reason == EndReason.SETUP_FAILED, (report, log)
    assert words in report.detail
    assert report.started_at is None


@needs_sandbox
def test_checkpoints_in_a_shared_folder_are_confirmed_and_resumed(
    portal: Portal, agent: Agent, shared: Path
) -> None:
    script = """
    cd "$TRAINYARD_CHECKPOINT_DIR"
    echo "from: $TRAINYARD_RESUME_FROM"
    [ -z "$TRAINYARD_RESUME_FROM" ] || cat $TRAINYARD_RESUME_FROM
    printf weights > step-1
    digest=$(sha256sum step-1 | cut -d' ' -f1)
    printf '{"path":"step-1","step":1,"bytes":7,"digest":"sha256:%s"}' $digest > .n
    mv .n checkpoint.json
    """
    place = str(shared / "checkpoints")
    report, log = portal.outcome("alpha", assignment(script, checkpoint_dir=place))
    assert report.end_reason == EndReason.COMPLETED, (report, log)
    book = portal.nodes["alpha"]
    portal.wait(lambda: book.reports[report.fence].checkpoint or _confirmed(book, report.fence))
    again = assignment(script, checkpoint_dir=place, job_id=report.fence, attempt_number=2)
    _, log = portal.outcome("alpha", again)
    assert f"from: {place}/step-1" in log and "weights" in log


def _confirmed(book: Any, fence: int) -> bool:
    return any(one.fence == fence and one.checkpoint for one in book.history)


@needs_sandbox
def test_local_processes_share_memory_and_nothing_stays(portal: Portal, agent: Agent) -> None:
    script = """
    if [ $LOCAL_RANK = 0 ]; then echo over > /dev/shm/word; sleep 1; else
    while [ ! -s /dev/shm/word ]; do sleep 0.02; done; cat /dev/shm/word; fi
    """
    report, log = portal.outcome("alpha", assignment(script, processes_per_node=2))
    assert (report.end_reason, log) == (EndReason.COMPLETED, "over\n")
    mine = f"-{report.fence}-0"
    wait_until(lambda: not [p for p in os.listdir("/dev/shm") if p.endswith(mine)])


@needs_sandbox
def test_the_program_dies_with_its_supervisor(portal: Portal, agent: Agent) -> None:
    order = assignment("echo ready; sleep 300")
    portal.assign("alpha", order)
    portal.wait(lambda: b"ready" in portal.logs[order.fence, 0])
    marker = f"TRAINYARD_SCRATCH_DIR={agent.state}/attempts/{order.fence}-0/scratch"
    first = next(pid for pid in processes.carrying(marker) if processes.children(pid))
    supervisor = processes.stat_fields(first)
    assert supervisor is not None
    os.kill(int(supervisor[1]), signal.SIGKILL)
    report = portal.ended("alpha", order.fence)
    assert report.end_reason == EndReason.NODE_LOST
    assert processes.carrying(marker) == []


def test_only_granted_files_are_shown() -> None:
    plan = SandboxPlan("bwrap", ("/w",), "/w/tmp", devices=("/dev/nvidia1", "/dev/nvidiactl"))
    words = sandbox.arguments(plan, "/w", 5)
    shown = [words[at + 1] for at, word in enumerate(words) if word.startswith("--dev-bind")]
    assert shown == ["/dev/nvidia1", "/dev/nvidiactl"]
    assert "--unshare-net" not in words and "--unshare-pid" in words
    closed = sandbox.arguments(SandboxPlan("bwrap", (), "/t", network=False), "/w", 5)
    assert "--unshare-net" in closed


def test_hidden_folders_win_over_shown_ones_and_own_ones_over_hidden() -> None:
    plan = SandboxPlan("b", ("/d/s/own",), "/t", read_only=("/d",), hidden=("/d/s",))
    assert sandbox.sees(plan, "/d/x") and sandbox.sees(plan, "/d/s/own/y")
    assert not sandbox.sees(plan, "/d/s/other") and not sandbox.sees(plan, "/e")


def test_what_the_kernel_refuses_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = tmp_path / "bwrap"
    liar.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2; exit 1\n")
    liar.chmod(0o755)
    for place in (tmp_path, *tmp_path.parents[:-2]):
        place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    options = Options(tmp_path, tmp_path, isolation=Isolation.SANDBOX)
    with pytest.raises(ConfigProblem, match=r"Permission denied.*user.max_user_namespaces"):
        settle_isolation(options)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(ConfigProblem, match="Install the package `bubblewrap`"):
        settle_isolation(options)


@pytest.mark.parametrize(
    "passing", [BlockingIOError("no more processes"), subprocess.TimeoutExpired("bwrap", 20)]
)
def test_what_may_pass_does_not_end_the_agent_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passing: Exception
) -> None:
    """systemd does not start an agent again that ended over its options."""

    def fails(*_: object, **__: object) -> None:
        raise passing

    monkeypatch.setattr("scheduler.agent.node.isolation.shutil.which", lambda _: "/usr/bin/bwrap")
    monkeypatch.setattr("scheduler.agent.node.isolation.subprocess.run", fails)
    monkeypatch.setattr("scheduler.agent.node.isolation.os.geteuid", lambda: 1000)
    with pytest.raises(OSError, match=r"no more processes|timed out"):
        settle_isolation(Options(tmp_path, tmp_path, isolation=Isolation.SANDBOX))
    assert "does not work" in preflight._sandbox().detail


@needs_sandbox
def test_without_a_network_the_processes_of_a_node_meet_on_its_loopback(
    portal: Portal, agents: Any
) -> None:
    agents("lonely", "--isolation", "sandbox", "--sandbox-network", "none")
    script = """#!/usr/bin/python3
import os, socket
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
assert place[0] == os.environ["PET_MASTER_ADDR"] == os.environ["TRAINYARD_NODE_IPS"]
with socket.create_server(place):
    socket.create_connection(place, 5).close()
print(os.environ["NCCL_SOCKET_IFNAME"], os.environ["GLOO_SOCKET_IFNAME"])
"""
    # Of the range for documentation: an address of the node that is not there inside.
    order = assignment(script, addresses=("192.0.2.1",))
    report, log = portal.outcome("lonely", order)
    assert (report.exit_code, log) == (0, "lo lo\n"), log
    report, _ = portal.outcome("lonely", assignment("true", processes_per_node=2))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert report.detail.startswith("processes_per_node: ") and "torchrun" in report.detail
