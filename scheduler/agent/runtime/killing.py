"""Ending processes: a signal to a whole tree, and making sure that nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from scheduler.agent.runtime import processes
from scheduler.agent.runtime.children import as_user
from scheduler.agent.runtime.limits import Limits, kill_groups, remove_groups
from scheduler.agent.runtime.space.sandbox import first_inside

_PATIENT_ROUNDS = 5


class Asking:
    """A signal that programs may answer to, sent to all below `root`: who answers gets it at once.

    A shell that only started the program would die of it and take the program along. So whom it
    would end is held until all have ended who catch, block or ignore it: parents are halted, as a
    script must not go on with its next line; a `tee` goes on reading. Who lives below somebody who
    answers waits for nothing: a shell's own trap runs when its child has ended.
    """

    def __init__(self, root: int) -> None:
        self.root = root
        self.number = 0
        self.answering: dict[int, int | None] = {}  # since which clock tick each has lived
        self.held: list[int] = []
        self.in_sandbox = False

    def begin(self, leaders: list[int], number: int, *, in_sandbox: bool) -> None:
        """Ask. In a sandbox the leaders only keep watch, and would take the program with them."""
        self.number, self.in_sandbox = number, in_sandbox
        watching = {*leaders, *self._heads(leaders)} if in_sandbox else set()
        near = [pid for pid in processes.descendants_near(self.root) if pid not in watching]
        found = [pid for pid in near if processes.answers(pid, number)]
        self.answering = {pid: processes.start_ticks(pid) for pid in found}
        if not found:
            self._ask_all(leaders)
            return
        asked = {*found, *(below for pid in found for below in processes.descendants_near(pid))}
        self.held = [pid for pid in near if pid not in asked]
        _send([pid for pid in self.held if processes.children(pid)], signal.SIGSTOP)
        _send([pid for pid in near if pid in asked], number)

    def goes_on(self, leaders: list[int]) -> bool:
        """Whether somebody still answers; once nobody does, who was held is asked as well."""
        for pid, ticks in self.answering.items():
            if ticks is not None and processes.is_alive(pid, ticks):
                return True
        if self.held:
            self._ask_all(leaders)
            _send(self.held, signal.SIGCONT)
        self.answering, self.held = {}, []
        return False

    def _ask_all(self, leaders: list[int]) -> None:
        spared = leaders if self.in_sandbox else ()
        signal_tree(self.root, self._heads(leaders), self.number, spared=spared)

    def _heads(self, leaders: list[int]) -> list[int]:
        """Who leads the groups of the programs."""
        if not self.in_sandbox:
            return leaders
        return [pid for pid in map(first_inside, leaders) if pid is not None]


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def signal_tree(
    root: int, leaders: list[int], number: int, *, spared: Collection[int] = ()
) -> None:
    """Send a signal to the leaders' process groups and to every other descendant of `root`."""
    reached = set()
    for pid in leaders:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
            reached.add(pid)
    for pid in processes.descendants(root):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid not in spared and os.getpgid(pid) not in reached:
                os.kill(pid, number)


def kill_descendants(
    *, uid: int | None, limits: Limits, drain: Callable[[], object], give_up_s: float
) -> list[int]:
    """Kill and reap every descendant of this subreaper; returns the pids that would not go.

    `drain` is called between rounds so that nobody blocks on a full log pipe.
    """
    give_up_at = time.monotonic() + give_up_s
    rounds = 0
    while True:
        # Who was orphaned is this subreaper's own child: without any child nobody is left.
        left = processes.descendants(os.getpid()) if _has_children() else []
        if not left:
            return []
        if time.monotonic() > give_up_at:
            return left
        limits.kill()
        _send(left, signal.SIGKILL)
        rounds += 1
        if uid is not None and rounds > _PATIENT_ROUNDS:
            # It forks faster than we count; the kernel ends all of a user at once.
            as_user(uid, lambda: os.kill(-1, signal.SIGKILL))
        drain()
        time.sleep(min(0.001 * rounds, 0.1))


def kill_remains(
    marker: str,
    uid: int | None,
    cgroups: tuple[str, ...],
    *,
    spared: Collection[int] = (),
    give_up_s: float = 10.0,
) -> list[int]:
    """Kill what a vanished supervisor left; returns what would not go.

    It is found by its mark, and by its user id where the attempt had one of its own; `spared` of
    that id are somebody else's.
    """
    give_up_at = time.monotonic() + give_up_s
    rounds = 0
    while True:
        kill_groups(cgroups)
        left = processes.carrying(marker)
        if uid is not None:
            left += [pid for pid in processes.owned_by(uid) if pid not in (*left, *spared)]
        if not left or time.monotonic() > give_up_at:
            remove_groups(cgroups)
            return left
        _send(left, signal.SIGKILL)
        rounds += 1
        if uid is not None and rounds > _PATIENT_ROUNDS and not spared:
            as_user(uid, lambda: os.kill(-1, signal.SIGKILL))
        time.sleep(min(0.01 * rounds, 0.1))


def _has_children() -> bool:
    """Whether there is any child, once those that have ended are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def reaped() -> Iterator[tuple[int, int]]:
    """The children that have ended, each with its status; they are no more afterwards."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            yield found


def signal_name(number: int) -> str:
    """SIGTERM for 15; a number that has no name as it is."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
