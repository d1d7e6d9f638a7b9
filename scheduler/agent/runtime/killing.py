"""Ending processes: a signal to a whole tree, and making sure that nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection

from scheduler.agent.runtime import processes
from scheduler.agent.runtime.children import as_user
from scheduler.agent.runtime.limits import Limits, kill_groups, remove_groups
from scheduler.agent.runtime.space.sandbox import first_inside

_PATIENT_ROUNDS = 5


def ask_tree(root: int, leaders: list[int], number: int, *, in_sandbox: bool) -> None:
    """Send a signal that programs may answer to all below `root`.

    In a sandbox the leaders only keep watch, and would take the program with them if they ended.
    """
    if not in_sandbox:
        signal_tree(root, leaders, number)
        return
    inside = [first_inside(leader) for leader in leaders]
    signal_tree(root, [pid for pid in inside if pid is not None], number, spared=leaders)


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
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
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
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
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


def signal_name(number: int) -> str:
    """SIGTERM for 15; a number that has no name as it is."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
