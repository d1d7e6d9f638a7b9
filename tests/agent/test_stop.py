"""Stopping: the chosen signal, grace, kill; and nothing is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from scheduler.agent.runtime import children, processes
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import Assignment, StopOrder
from tests.agent.conftest import SAVES, Agent, assignment, wait_until
from tests.agent.portal import Portal

CANCEL = StopOrder(EndReason.CANCELLED_BY_USER, 5)
DETACHED = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(1), os.close(2)
        time.sleep(300)
    os._exit(0)
os.wait()
"""


def marker_of(agent: Agent, order: Assignment) -> str:
    place = agent.state / "attempts" / f"{order.fence}-{order.rank}" / "scratch"
    return f"TRAINYARD_SCRATCH_DIR={place}"


def started(portal: Portal, agent: Agent, order: Assignment, word: str = "ready") -> None:
    portal.assign("alpha", order)
    key = (order.fence, 0)
    portal.wait(lambda: word.encode() in portal.logs[key], what=f"{word} in the log")


def test_cancel_sends_the_signal_and_leaves_a_notice_first(portal: Portal, agent: Agent) -> None:
    script = """
    trap 'cat "$TRAINYARD_NOTICE_FILE"; echo " got it"; exit 0' TERM
    echo ready; while :; do sleep 0.05; done
    """
    order = assignment(script)
    started(portal, agent, order)
    portal.stop_attempt("alpha", order.fence, CANCEL)
    report = portal.ended("alpha", order.fence)
    assert (report.end_reason, report.exit_code) == (EndReason.CANCELLED_BY_USER, 0)
    log = portal.logs[order.fence, 0].decode()
    notice = json.loads(log[log.index("{") : log.index("}") + 1])
    assert (notice["reason"], notice["grace_s"]) == ("cancelled_by_user", 5)
    assert notice["deadline"] == notice["at"] + 5 and "got it" in log


def test_what_lies_in_the_notices_way_does_not_stop_the_guards_clock(
    portal: Portal, agent: Agent
) -> None:
    """A pipe that nobody reads, under the name that the notice has at first."""
    script = """
    trap '' TERM; mkfifo ".preempt-notice.json.$PPID"
    echo ready; while :; do sleep 0.05; done
    """
    order = assignment(script)
    started(portal, agent, order)
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
    report = portal.ended("alpha", order.fence, timeout_s=10)
    assert report.end_reason == EndReason.CANCELLED_BY_USER
    work = agent.state / "attempts" / f"{order.fence}-0" / "work"
    assert json.loads((work / "preempt-notice.json").read_text())["grace_s"] == 1


def test_who_acts_as_the_jobs_user_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, "_AS_USER_S", 0.2)
    began = time.monotonic()
    children.as_user(None, lambda: os.kill(os.getpid(), signal.SIGSTOP))
    assert 0.2 < time.monotonic() - began < 5


def test_the_chosen_signal_is_used(portal: Portal, agent: Agent) -> None:
    script = "trap 'echo usr1; exit 9' USR1; echo ready; while :; do sleep 0.05; done"
    order = assignment(script, stop_signal="SIGUSR1")
    started(portal, agent, order)
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.PREEMPTED, 5))
    report = portal.ended("alpha", order.fence)
    assert (report.end_reason, report.exit_code) == (EndReason.PREEMPTED, 9)


def test_who_ignores_the_signal_is_killed_after_the_grace(portal: Portal, agent: Agent) -> None:
    order = assignment("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    started(portal, agent, order)
    asked_at = time.monotonic()
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
    stopping = portal.wait_for("alpha", order.fence, AttemptState.STOPPING, AttemptState.ENDED)
    assert stopping.state == AttemptState.STOPPING
    report = portal.ended("alpha", order.fence)
    assert 0.9 < time.monotonic() - asked_at < 6
    assert (report.end_reason, report.exit_code) == (EndReason.CANCELLED_BY_USER, 137)
    assert processes.carrying(marker_of(agent, order)) == []


def test_a_shorter_grace_brings_the_kill_forward(portal: Portal, agent: Agent) -> None:
    order = assignment("trap '' TERM; echo ready; while :; do sleep 0.05; done")
    started(portal, agent, order)
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 300))
    portal.wait_for("alpha", order.fence, AttemptState.STOPPING)
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 0))
    assert portal.ended("alpha", order.fence).exit_code == 137


def test_a_detached_grandchild_does_not_survive_a_normal_end(portal: Portal, agent: Agent) -> None:
    order = assignment(command=("/usr/bin/python3", "-c", DETACHED + "time.sleep(0.3)"))
    portal.assign("alpha", order)
    marker = marker_of(agent, order)
    wait_until(lambda: len(processes.carrying(marker)) >= 2)
    report = portal.ended("alpha", order.fence)
    assert report.end_reason == EndReason.COMPLETED
    assert processes.carrying(marker) == []


def test_a_detached_grandchild_does_not_survive_a_stop(portal: Portal, agent: Agent) -> None:
    code = DETACHED + "print('ready', flush=True); time.sleep(300)"
    order = assignment(command=("/usr/bin/python3", "-c", code))
    started(portal, agent, order)
    assert len(processes.carrying(marker_of(agent, order))) >= 2
    portal.stop_attempt("alpha", order.fence, CANCEL)
    portal.ended("alpha", order.fence)
    assert processes.carrying(marker_of(agent, order)) == []


def test_who_forks_all_the_time_is_killed_too(portal: Portal, agent: Agent) -> None:
    code = """
import os, time
print("ready", flush=True)
while True:
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.02)
        if os.fork(): os._exit(0)
        time.sleep(0.02); os._exit(0)
    time.sleep(0.005)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
"""
    order = assignment(command=("/usr/bin/python3", "-c", code))
    started(portal, agent, order)
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 0))
    portal.ended("alpha", order.fence)
    assert processes.carrying(marker_of(agent, order)) == []


def test_cancelled_before_it_started_it_never_starts(portal: Portal, agent: Agent) -> None:
    order = assignment("echo never", stop=StopOrder(EndReason.CANCELLED_BY_USER, 5))
    report, log = portal.outcome("alpha", order)
    assert report.end_reason == EndReason.CANCELLED_BY_USER
    assert report.started_at is None and log == ""
    assert report.detail == "", "words of its own would make it this node's fault"


def test_what_the_server_no_longer_lists_is_stopped(portal: Portal, agent: Agent) -> None:
    """At once, whatever time it has to stop in: another copy may run by now."""
    order = assignment("trap '' TERM; echo ready; while :; do sleep 0.1; done", stop_grace_s=300)
    started(portal, agent, order)
    portal.unlist("alpha", order.fence)
    report = portal.ended("alpha", order.fence)
    assert report.end_reason == EndReason.NODE_LOST
    assert "no longer lists" in report.detail


def test_the_time_limit_is_kept_on_the_node(portal: Portal, agent: Agent) -> None:
    script = (
        "trap 'echo saved; exit 0' TERM; echo until $TRAINYARD_DEADLINE_EPOCH; sleep 300 & wait"
    )
    order = assignment(script, time_limit_s=1)
    began = time.time()
    report, log = portal.outcome("alpha", order)
    assert report.end_reason == EndReason.TIME_LIMIT
    assert "saved" in log
    assert abs(int(log.split()[1]) - began) < 4


def test_what_runs_is_given_more_time(portal: Portal, agent: Agent) -> None:
    order = assignment("echo ready; sleep 3; echo done", time_limit_s=2)
    started(portal, agent, order)
    portal.assign("alpha", replace(order, launch=replace(order.launch, time_limit_s=60)))
    report = portal.ended("alpha", order.fence)
    assert report.end_reason == EndReason.COMPLETED
    assert b"done" in portal.logs[(order.fence, 0)]


@pytest.mark.parametrize(
    ("first", "code"), [("true", 143), ("trap 'echo swept' EXIT", 143), ("trap 'exit 3' TERM", 3)]
)
def test_a_program_that_a_shell_started_has_its_grace(
    portal: Portal, agent: Agent, first: str, code: int
) -> None:
    pipe = " | tee copy" if first == "true" else ""
    script = f"#!/bin/bash\n{first}\n/usr/bin/python3 -c '{SAVES}'{pipe}\necho went on\n"
    order = assignment(script)
    started(portal, agent, order)
    asked_at = time.monotonic()
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 20))
    report = portal.ended("alpha", order.fence)
    assert 0.7 < time.monotonic() - asked_at < 10
    assert report.end_reason == EndReason.CANCELLED_BY_USER
    assert report.exit_code == code, "the shell's own end counts"
    log = portal.logs[order.fence, 0].decode()
    assert "saved" in log and "went on" not in log


def test_a_helper_that_ignores_the_signal_holds_up_no_stop(portal: Portal, agent: Agent) -> None:
    """As Python's own tracker of shared memory does, which goes when its parent has gone."""
    code = """
import subprocess, sys, time
inner = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', "
inner += "flush=True); sys.stdin.read()"
helper = subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE)
time.sleep(300)
"""
    order = assignment(command=("/usr/bin/python3", "-c", code))
    started(portal, agent, order)
    asked_at = time.monotonic()
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 30))
    assert portal.ended("alpha", order.fence).exit_code == 143
    assert time.monotonic() - asked_at < 5


def test_who_ignores_the_signal_below_a_shell_has_the_whole_grace(
    portal: Portal, agent: Agent
) -> None:
    code = SAVES.replace("signal.SIGTERM, save", "signal.SIGTERM, signal.SIG_IGN")
    order = assignment(f"/usr/bin/python3 -c '{code}'\necho went on")
    started(portal, agent, order)
    asked_at = time.monotonic()
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
    assert portal.ended("alpha", order.fence).exit_code == 137
    assert 0.9 < time.monotonic() - asked_at < 6
    assert processes.carrying(marker_of(agent, order)) == []


def test_what_does_not_answer_ends_at_once(portal: Portal, agent: Agent) -> None:
    order = assignment("echo ready; sleep 300; echo went on")
    started(portal, agent, order)
    asked_at = time.monotonic()
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 30))
    assert portal.ended("alpha", order.fence).exit_code == 143
    assert time.monotonic() - asked_at < 3
