"""Ending a stack's programs without a word, and agents that outlive it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator

import psutil

from portal.embedded import programs
from portal.embedded.places import ROOT
from portal.embedded.programs import LocalNode
from portal.embedded.stack import Stack


def kill_control_plane(stack: Stack) -> int:
    """`kill -9` of supervisord and all its programs; returns how many processes that was.

    supervisord is stopped first, so that it neither starts anything anew nor dies before its
    programs: they would be told to end in order.
    """
    chief = psutil.Process(stack.supervisor.pid)
    chief.suspend()
    killed = [*chief.children(recursive=True), chief]
    for process in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    # Only supervisord is this process's own child; the others are gone once nobody finds them.
    _, alive = psutil.wait_procs(killed, timeout=15)
    if [each for each in alive if _lives(each)]:
        raise TimeoutError("a killed process did not end")
    return len(killed)


def restart(stack: Stack) -> None:
    """Bring a killed stack up again, in the same folder and at the same address."""
    stack.stop()
    stack.start()


class Agents:
    """Agents of a stack with `runs_agents=False`, each a process of its own.

    They die with this process, not with the stack. Attempts outlive both.
    """

    def __init__(self, stack: Stack, nodes: tuple[LocalNode, ...]) -> None:
        self.stack = stack
        self.nodes = nodes
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the agent of every node; what they say goes into the stack's log folder."""
        for node in self.nodes:
            program = programs.agent(node, self.stack.places)
            with (self.stack.places.logs / f"{program.name}.log").open("ab") as output:
                self._running.append(
                    subprocess.Popen(
                        programs.leashed(program.command, os.getpid()),
                        cwd=ROOT,
                        env=self.stack.environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        umask=program.umask,
                        start_new_session=True,
                    )
                )

    def end(self, number: signal.Signals) -> None:
        """Send every agent this signal and wait until all are gone."""
        for process in self._running:
            process.send_signal(number)
        for process in self._running:
            process.wait(timeout=30)
        self._running = []


@contextlib.contextmanager
def running_agents(stack: Stack, nodes: tuple[LocalNode, ...]) -> Iterator[Agents]:
    """The agents of these nodes, running until the block is left."""
    agents = Agents(stack, nodes)
    try:
        agents.start()
        yield agents
    finally:
        agents.end(signal.SIGTERM)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
