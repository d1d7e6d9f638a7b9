"""What a workload costs in computing time, program by program, whatever else the machine does."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from portal.embedded.programs import BACKGROUND, BEAT, BROKER, SCHEDULER, WEB
from portal.embedded.stack import Stack

_TICKS = os.sysconf("SC_CLK_TCK")
_ALL = Path("/proc/stat")
_SERVERS = (BROKER, WEB, SCHEDULER, BACKGROUND, BEAT)
# Fields of /proc/PID/stat after the name: parent; user, system, and those of reaped children.
_PARENT, _TIMES = 1, slice(11, 15)


class Effort:
    """Seconds of computing since it was made: of each server, of all agents, of this process.

    The guards and processes of attempts are no agent's children once they have ended: what they
    used is only in `machine`, which is all that was computed here, whoever wanted it.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before = self._now()
        self._mine, self._machine = time.process_time(), _machine_s()

    def per_job_ms(self, jobs: int) -> dict[str, float]:
        """Milliseconds of computing for each of so many jobs."""
        now = self._now()
        spent = {name: used - self._before.get(name, 0.0) for name, used in now.items()}
        spent["client"] = time.process_time() - self._mine
        spent["machine"] = _machine_s() - self._machine
        return {name: round(1000 * used / jobs, 2) for name, used in spent.items()}

    def _now(self) -> dict[str, float]:
        supervisor = self._stack.supervisor
        times, children = _processes()
        used = {name: _tree(supervisor.pid_of(name), times, children) for name in _SERVERS}
        pids = [supervisor.pid_of(node.program) for node in self._stack.options.nodes]
        used["agents"] = sum(_tree(pid, times, children) for pid in pids)
        return used


def _machine_s() -> float:
    """Seconds that all processors have worked: for users, the system and interrupts."""
    user, nice, system, _, _, *interrupts = map(int, _ALL.read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS


def _processes() -> tuple[dict[int, float], dict[int, list[int]]]:
    """The seconds each process has used, and whose children there are."""
    times: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            text = (path / "stat").read_text()
        except OSError:
            continue  # it has ended meanwhile
        fields = re.sub(r"^.*\) ", "", text, flags=re.DOTALL).split()
        times[int(path.name)] = sum(map(int, fields[_TIMES])) / _TICKS
        children.setdefault(int(fields[_PARENT]), []).append(int(path.name))
    return times, children


def _tree(pid: int, times: dict[int, float], children: dict[int, list[int]]) -> float:
    return times.get(pid, 0.0) + sum(_tree(one, times, children) for one in children.get(pid, ()))
