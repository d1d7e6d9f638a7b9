"""Harm to nodes: agents, supervisors, hosts, their clocks (faults 1, 2, 4, 12)."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from dataclasses import replace

from portal.torture.faults.hand import Fault, Hand
from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.records import SupervisorRecord, read_record, write_record

AGENT_POINTS = tuple(
    f"agent.{word}"
    for word in (
        "accepted prepared launching launched reporting answered stop-written end-seen "
        "log-acknowledged forgetting forgotten adopting"
    ).split()
)
_RETURN_TRIES = 40
_HOUR_S = 3600.0
SUPERVISOR_POINTS = ("supervisor.started", "supervisor.ended")


def kill_agent(hand: Hand) -> str:
    """1: `kill -9` at any moment."""
    node = hand.node()
    return node if hand.kill(hand.yard.pid_of(hand.yard.node_program(node))) else ""


def replace_agent(hand: Hand) -> str:
    """1: the agent of a node at work dies, and is let come back before anything else befalls it."""
    node = hand.node_at_work()
    contact = hand.yard.places.node(node) / "last_sync"
    at = time.time()
    if not hand.kill(hand.yard.pid_of(hand.yard.node_program(node))):
        return ""
    for _ in range(_RETURN_TRIES):
        hand.nap(0.5)
        with contextlib.suppress(FileNotFoundError):
            if contact.stat().st_mtime > at or hand.over.is_set():
                break
    return node


def kill_agent_at_a_point(hand: Hand) -> str:
    """1: `kill -9` exactly between two steps of the protocol."""
    point = hand.dice.choice(AGENT_POINTS)
    if point == "agent.adopting":
        kill_agent(hand)
    return point if hand.order(point) else ""


def kill_supervisor(hand: Hand) -> str:
    """2: the guardian dies and leaves its programs alone."""
    found = hand.await_guarded()
    return found[0] if found and hand.kill(found[2].pid) else ""


def kill_supervisor_at_a_point(hand: Hand) -> str:
    """2: before it has said that the program runs, and after it has written the end."""
    point = hand.dice.choice(SUPERVISOR_POINTS)
    return point if hand.order(point) else ""


def give_pid_to_another(hand: Hand) -> str:
    """2: supervisor and agent die, and meanwhile a foreign process gets the supervisor's pid.

    The record is made to name a process that really runs: the same to whoever reads it.
    """
    found = hand.await_guarded()
    if found is None:
        return ""
    node, slot, guard = found
    program = hand.yard.node_program(node)
    with hand.stopping(hand.yard.pid_of(program)):
        if not hand.kill(guard.pid):
            return ""
        other = subprocess.Popen(["sleep", "900"], start_new_session=True)
        hand.bystanders.append(other)
        with contextlib.suppress(OSError):
            write_record(slot / records.SUPERVISOR, replace(guard, pid=other.pid))
        hand.kill(hand.yard.pid_of(program))
    return node


def reboot(hand: Hand) -> str:
    """4: everything on the node dies at once, and it comes back as another boot."""
    node = hand.node()
    agent = hand.yard.pid_of(hand.yard.node_program(node))
    with hand.stopping(agent) as reached:
        guards = [
            read_record(SupervisorRecord, slot / records.SUPERVISOR) for slot in hand.slots(node)
        ]
        alive = [g.pid for g in guards if g and processes.is_alive(g.pid, g.start_ticks)]
        for pid in alive:
            hand.kill(pid, signal.SIGSTOP)
        for below in [each for pid in alive for each in (*processes.descendants(pid), pid)]:
            hand.kill(below)
        hand.yard.new_boot(node)
        hand.kill(agent)
    return node if reached else ""


def set_clock(hand: Hand) -> str:
    """12: a node's clock is an hour off, and is put right again."""
    node = hand.node()
    hand.yard.set_clock(node, hand.dice.choice((_HOUR_S, -_HOUR_S)))
    try:
        hand.nap(hand.dice.uniform(2.0, 6.0))
    finally:
        hand.yard.set_clock(node, 0.0)
    return node


FAULTS = (
    Fault("agent-kill", 1, kill_agent),
    Fault("agent-replaced", 1, replace_agent, "agent-replaced"),
    Fault("agent-point", 1, kill_agent_at_a_point),
    Fault("supervisor-kill", 2, kill_supervisor),
    Fault("supervisor-point", 2, kill_supervisor_at_a_point, "supervisor-point"),
    Fault("pid-reused", 2, give_pid_to_another),
    Fault("reboot", 4, reboot),
    Fault("clock-node", 12, set_clock, "clock"),
)
