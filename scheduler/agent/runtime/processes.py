"""Reading `/proc`: who is whose child, who is still the same process, who carries a mark."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from scheduler.agent.runtime import kernel

_PPID, _START_TICKS = 1, 19
# User and system time, own and of reaped children.
_TIMES = slice(11, 15)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MIB = 1024 * 1024


@cache
def boot_id() -> str:
    """The operating system's name for this boot; every restart of the host has another."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def stat_fields(pid: int | str) -> list[str] | None:
    """`/proc/<pid>/stat` from the state letter on; None when the process is gone."""
    try:
        text = kernel.read_small(f"/proc/{pid}/stat").decode("utf-8", "replace")
    except OSError:
        return None
    # The name in parentheses may itself hold spaces and parentheses: count from its end.
    return text[text.rindex(")") + 2 :].split()


def start_ticks(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; with the pid it names one process."""
    fields = stat_fields(pid)
    return int(fields[_START_TICKS]) if fields and fields[0] != "Z" else None


def is_alive(pid: int, ticks: int) -> bool:
    """Whether this very process still exists and is more than a zombie."""
    return pid > 0 and start_ticks(pid) == ticks


def answers(pid: int, number: int) -> bool:
    """Whether a signal would not simply end the process: it catches, blocks or ignores it.

    Who ignores it and runs the program of its parent is a helper such as Python's resource tracker,
    which ends with that one.
    """
    try:
        text = kernel.read_small(f"/proc/{pid}/status").decode("utf-8", "replace")
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        caught, blocked, ignored = (
            int(fields[name], 16) >> (number - 1) & 1 for name in ("SigCgt", "SigBlk", "SigIgn")
        )
        if caught or blocked or not ignored:
            return bool(caught or blocked)
        return os.readlink(f"/proc/{pid}/exe") != os.readlink(f"/proc/{int(fields['PPid'])}/exe")
    except (OSError, KeyError, ValueError):
        return False


def all_pids() -> list[int]:
    """Every process of this host now."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> list[int]:
    """Every process below `root`, parents before children; zombies included."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        fields = stat_fields(pid)
        if fields is not None:
            children.setdefault(int(fields[_PPID]), []).append(pid)
    found: list[int] = []
    open_ends = [root]
    while open_ends:
        below = children.get(open_ends.pop(), [])
        found += below
        open_ends += below
    return found


def descendants_near(root: int) -> list[int]:
    """As `descendants`, from child to child: cheap on a busy host, and may miss who just moved."""
    found = children(root)
    for pid in found:  # it grows meanwhile
        found += children(pid)
    return found


def children(parent: int) -> list[int]:
    """The direct children of `parent` now; zombies included."""
    try:
        tasks = os.listdir(f"/proc/{parent}/task")
        texts = [Path(f"/proc/{parent}/task/{task}/children").read_text() for task in tasks]
    except OSError:
        return [pid for pid in all_pids() if parent_of(pid) == parent]
    return [int(pid) for text in texts for pid in text.split()]


def parent_of(pid: int) -> int | None:
    """Whose child it is; None when it is gone."""
    fields = stat_fields(pid)
    return int(fields[_PPID]) if fields else None


def cpu_seconds_below(roots: Iterable[int]) -> dict[int, float]:
    """Processor time of each root's descendants and their reaped children; one walk for all."""
    ticks: dict[int, int] = {}
    below: dict[int, list[int]] = {}
    for pid in all_pids():
        fields = stat_fields(pid)
        if fields is not None:
            ticks[pid] = sum(map(int, fields[_TIMES]))
            below.setdefault(int(fields[_PPID]), []).append(pid)
    found = {}
    for root in roots:
        total, open_ends = 0, list(below.get(root, ()))
        while open_ends:
            pid = open_ends.pop()
            total += ticks[pid]
            open_ends += below.get(pid, ())
        found[root] = total / _TICKS_PER_S
    return found


def resident_mib(pids: Iterable[int]) -> int:
    """Memory held by these processes; cheap, but pages they share count once for each."""
    return sum(_resident_bytes(pid) for pid in pids) // _MIB


def proportional_mib(pids: Iterable[int]) -> int:
    """As `resident_mib` with shared pages divided among their sharers; walks page tables."""
    return sum(_proportional_bytes(pid) for pid in pids) // _MIB


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as source:
            return int(source.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as source:
            for line in source:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _resident_bytes(pid)


def uids_in_use() -> set[int]:
    """The user ids that any process on this host has now."""
    found: set[int] = set()
    for pid in all_pids():
        try:
            found.add(os.stat(f"/proc/{pid}").st_uid)
        except OSError:
            continue
    return found


def owned_by(uid: int) -> list[int]:
    """Every process of this user id."""
    found = []
    for pid in all_pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                found.append(pid)
        except OSError:
            continue
    return found


def carrying(marker: str) -> list[int]:
    """Processes whose environment holds the text `marker`, such as `NAME=value`."""
    needle = marker.encode()
    found = []
    for pid in all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as source:
                if needle in source.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]
