"""Agents, supervisors, forkservers and portals die; attempts do not, and never start twice."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from scheduler.agent.runtime import processes, records
from scheduler.agent.spool import Slot, Spool
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import Assignment, StopOrder
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal


@pytest.fixture
def own(agents: Any, request: pytest.FixtureRequest) -> Iterator[Agent]:
    """An agent of this test alone, not started yet."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name)[:60].strip("-")
    made: Agent = agents(name, start=False)
    yield made
    made.clean_up()


def slot_of(agent: Agent, order: Assignment) -> Slot:
    spool = Spool(agent.state / "spool")
    return next(slot for slot in spool.slots() if slot.entry.assignment.fence == order.fence)


def begin(portal: Portal, agent: Agent, script: str, **changes: Any) -> Assignment:
    """Start an attempt and wait until its program has said something."""
    order = assignment(script, **changes)
    portal.assign(agent.name, order)
    portal.wait(lambda: portal.logs[order.fence, 0], what="the first words")
    return order


def test_a_killed_agents_attempt_is_adopted_not_restarted(portal: Portal, own: Agent) -> None:
    own.start()
    script = 'echo begin $$ >> "$TRAINYARD_OUTPUT_DIR/starts"; echo one; sleep 3; echo two'
    order = begin(portal, own, script)
    portal.wait_for(own.name, order.fence, AttemptState.RUNNING)
    own.kill()
    supervisor = slot_of(own, order).supervisor()
    assert supervisor and processes.is_alive(supervisor.pid, supervisor.start_ticks)
    syncs, began = portal.nodes[own.name].syncs, time.monotonic()
    syncs.clear()
    own.start()
    portal.wait(lambda: order.fence in [one.fence for sync in syncs for one in sync.reports])
    assert time.monotonic() - began < 15, "adopted too late"
    report = portal.ended(own.name, order.fence)
    assert report.end_reason == EndReason.COMPLETED
    assert portal.logs[order.fence, 0] == b"one\ntwo\n"
    assert (own.state / f"outputs/{order.job_id}/starts").read_text().count("begin") == 1


def test_an_end_while_no_agent_was_there_is_told_later(portal: Portal, own: Agent) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 0.7; echo two; exit 4")
    assert own.stop() == 0
    wait_until(lambda: slot_of(own, order).exit() is not None)
    own.start()
    report = portal.ended(own.name, order.fence)
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, 4)
    assert portal.logs[order.fence, 0] == b"one\ntwo\n"


def test_a_stop_order_reaches_an_adopted_attempt(portal: Portal, own: Agent) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 300")
    own.kill()
    portal.unlist(own.name, order.fence)
    own.start()
    assert portal.ended(own.name, order.fence).end_reason == EndReason.NODE_LOST


def test_the_death_of_the_forkserver_harms_nobody(portal: Portal, own: Agent) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 1; echo two")
    assert own.process is not None
    supervisor = slot_of(own, order).supervisor()
    assert supervisor is not None
    for pid in processes.descendants(own.process.pid):
        if pid != supervisor.pid and own_parent(pid) == own.process.pid:
            os.kill(pid, signal.SIGKILL)
    second = assignment("echo three")
    _, log = portal.outcome(own.name, second)
    assert log == "three\n"
    assert portal.ended(own.name, order.fence).end_reason == EndReason.COMPLETED


def own_parent(pid: int) -> int:
    fields = processes.stat_fields(pid)
    return int(fields[1]) if fields else 0


def test_a_lost_supervisor_is_told_honestly_and_its_program_killed(
    portal: Portal, own: Agent
) -> None:
    own.start()
    script = "echo one; env -i setsid sleep 300 & setsid sleep 300"
    order = begin(portal, own, script)
    slot = slot_of(own, order)
    supervisor, launch = slot.supervisor(), slot.launch()
    assert supervisor and launch and len(processes.carrying(launch.marker)) >= 2
    os.kill(supervisor.pid, signal.SIGKILL)
    report = portal.ended(own.name, order.fence)
    assert (report.end_reason, report.exit_code) == (EndReason.NODE_LOST, None)
    assert "supervisor was lost" in report.detail
    wait_until(lambda: not processes.carrying(launch.marker))
    if launch.uid is not None:
        assert processes.owned_by(launch.uid) == [], "even who hid its mark is gone"


@contextlib.contextmanager
def asleep(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def test_a_stop_is_kept_though_the_supervisor_is_stopped(portal: Portal, own: Agent) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 300", stop_grace_s=1)
    slot = slot_of(own, order)
    supervisor, launch = slot.supervisor(), slot.launch()
    assert supervisor and launch
    with asleep(supervisor.pid):
        portal.stop_attempt(own.name, order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
        report = portal.ended(own.name, order.fence)
        wait_until(lambda: not processes.carrying(launch.marker))
    assert report.end_reason == EndReason.CANCELLED_BY_USER, "it was woken, and did it itself"


def test_a_supervisor_that_is_stopped_again_is_ended_with_its_program(
    portal: Portal, own: Agent
) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 300", stop_grace_s=1)
    slot = slot_of(own, order)
    supervisor, launch = slot.supervisor(), slot.launch()
    assert supervisor and launch
    over = threading.Event()

    def hold() -> None:
        while not over.wait(0.01):
            with contextlib.suppress(ProcessLookupError):
                os.kill(supervisor.pid, signal.SIGSTOP)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        portal.stop_attempt(own.name, order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 1))
        report = portal.ended(own.name, order.fence)
    finally:
        over.set()
        holder.join()
    # It may have come as far as its own record between two of the stops.
    if report.end_reason == EndReason.NODE_LOST:
        assert "it was to stop, but its supervisor did not run" in report.detail
    wait_until(lambda: not processes.carrying(launch.marker))


def test_without_the_server_a_stopped_supervisors_program_ends_all_the_same(
    portal: Portal, own: Agent
) -> None:
    """Before another copy may begin: the grace, the program's own, and a moment."""
    own.start("--disconnect-grace-s", "2")
    order = begin(portal, own, "echo one; sleep 300", stop_grace_s=1)
    slot = slot_of(own, order)
    supervisor, launch = slot.supervisor(), slot.launch()
    assert supervisor and launch
    with asleep(supervisor.pid):
        time.sleep(3.0)
        assert processes.carrying(launch.marker), "contact keeps it alive beyond the grace"
        portal.trouble = lambda path: (503, None)
        began = time.monotonic()
        try:
            wait_until(lambda: not processes.carrying(launch.marker))
        finally:
            portal.trouble = None
        assert time.monotonic() - began > 2 + 1, "not before its time"
    report = portal.ended(own.name, order.fence)
    assert report.end_reason == EndReason.NODE_LOST and "no contact" in report.detail


def test_a_time_limit_is_kept_though_the_supervisor_is_stopped(portal: Portal, own: Agent) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 300", stop_grace_s=1, time_limit_s=3)
    portal.wait_for(own.name, order.fence, AttemptState.RUNNING)
    supervisor = slot_of(own, order).supervisor()
    assert supervisor
    with asleep(supervisor.pid):
        assert portal.ended(own.name, order.fence).end_reason == EndReason.TIME_LIMIT


def test_a_node_that_slept_beyond_its_grace_kills_its_program_when_it_wakes(
    portal: Portal, own: Agent
) -> None:
    """Nobody could end it meanwhile: what it does not do is go on."""
    own.start("--disconnect-grace-s", "2")
    script = 'echo one; while :; do date +%s%N >> "$TRAINYARD_OUTPUT_DIR/beats"; sleep 0.2; done'
    order = begin(portal, own, f"trap '' TERM; {script}", stop_grace_s=1)
    slot = slot_of(own, order)
    supervisor, launch = slot.supervisor(), slot.launch()
    assert supervisor and launch and own.process
    beats = own.state / "outputs" / str(order.job_id) / "beats"
    program = processes.descendants(supervisor.pid)
    with asleep(own.process.pid, supervisor.pid, *program):
        time.sleep(4.0)
        portal.trouble = lambda path: (503, None)
        before = len(beats.read_text().splitlines())
    try:
        wait_until(lambda: not processes.carrying(launch.marker), 5)
    finally:
        portal.trouble = None
    assert len(beats.read_text().splitlines()) - before <= 10
    assert portal.ended(own.name, order.fence).end_reason == EndReason.NODE_LOST


def test_what_was_accepted_but_never_launched_is_not_started_later(
    portal: Portal, own: Agent
) -> None:
    order = assignment("echo never")
    spool = Spool(own.state / "spool")
    spool.accept([spool.open(order)])
    portal.assign(own.name, order)
    own.start()
    report = portal.ended(own.name, order.fence)
    assert report.end_reason == EndReason.START_FAILED
    assert portal.logs[order.fence, 0] == b""


def test_after_a_reboot_nothing_is_adopted_by_its_pid(portal: Portal, own: Agent) -> None:
    own.start()
    order = begin(portal, own, "echo one; sleep 300")
    own.kill()
    slot = slot_of(own, order)
    supervisor = slot.supervisor()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    entry = replace(slot.entry, boot_id="an earlier boot")
    records.write_record(slot.path / records.ENTRY, entry)
    mine = replace(supervisor, pid=os.getpid(), boot_id="an earlier boot")
    records.write_record(slot.path / records.SUPERVISOR, mine)
    own.start()
    report = portal.ended(own.name, order.fence)
    assert report.end_reason == EndReason.NODE_LOST
    assert "restarted" in report.detail


@pytest.mark.parametrize(("own_s", "asked_s", "usual_s"), [("2", 0, 900), ("1", 2, 1), ("9", 0, 2)])
def test_running_goes_on_without_the_server_until_the_grace(
    portal: Portal, own: Agent, own_s: str, asked_s: int, usual_s: int
) -> None:
    """The node's own, what the job asks for, or the server's, which gives the job away by that."""
    own.start("--disconnect-grace-s", own_s)
    graces = {"disconnect_grace_s": asked_s, "usual_grace_s": usual_s}
    order = begin(portal, own, "echo one; sleep 300", stop_grace_s=1, **graces)
    time.sleep(2.5)
    report = portal.nodes[own.name].reports[order.fence]
    assert report.state == AttemptState.RUNNING, "contact keeps it alive beyond the grace"
    portal.trouble = lambda path: (503, None)
    try:
        wait_until(lambda: slot_of(own, order).exit() is not None)
    finally:
        portal.trouble = None
    report = portal.ended(own.name, order.fence)
    assert report.end_reason == EndReason.NODE_LOST
    assert "no contact" in report.detail


def test_an_agent_waits_for_a_server_that_is_not_there_yet(portal: Portal, own: Agent) -> None:
    portal.stop()
    own.start()
    time.sleep(0.8)
    portal.start()
    _, log = portal.outcome(own.name, assignment("echo here"))
    assert log == "here\n"


def test_a_full_disk_refuses_new_attempts_with_the_reason(portal: Portal, own: Agent) -> None:
    own.start("--min-free-mib", "999999999")
    report, _ = portal.outcome(own.name, assignment("echo never"))
    assert report.end_reason == EndReason.START_FAILED
    assert "disk is full" in report.detail
