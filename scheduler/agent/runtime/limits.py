"""Limits of memory, processors and processes: control groups where they can be written.

Version 2 of the control groups is tried first, then version 1's trees. Memory that neither limits
is watched a few times a second by the supervisor.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scheduler.agent.runtime import kernel, processes

_MIB = 1024 * 1024
_PERIOD_US = 100_000
_REMOVE_TRIES = 20
_OURS = "trainyard"
_CONTROLLERS = frozenset({"memory", "cpu", "pids"})
# Counted whoever ran out of memory, by version 2 and by version 1.
_KILLS = (("memory.events", "oom_kill"), ("memory.oom_control", "oom_kill"))
# Of all processes and threads the host may have, an attempt gets a quarter, but not below and not
# above these: enough for a node full of ranks with their loaders, too few to starve everybody.
_PART_OF_PROCESSES = 4
_FEWEST_PROCESSES, _MOST_PROCESSES = 1024, 65_536


@dataclass(frozen=True, slots=True)
class Tree:
    """A mounted control-group hierarchy and the group below which ours are made."""

    version: int
    controllers: frozenset[str]
    own: Path


@dataclass(slots=True)
class Limits:
    """The control groups of one attempt; empty paths where the host offers none."""

    memory_mib: int
    groups: list[Path] = field(default_factory=list)
    memory_group: Path | None = None
    kill_group: Path | None = None
    has_most_processes: bool = False

    def join(self) -> None:
        """Put the calling process under the limits; its children follow."""
        for group in self.groups:
            _put(group, "cgroup.procs", 0)

    def breach(self, root: int) -> str:
        """Evidence that the memory limit was crossed below process `root`, else empty."""
        if self.memory_group is not None:
            if not _counted(self.memory_group, _KILLS) or not _met_its_limit(self.memory_group):
                return ""
            return f"the kernel ended a process at the limit of {self.memory_mib} MiB"
        # Asked four times a second for every attempt; who is missed now is seen then.
        pids = processes.descendants_near(root)
        if processes.resident_mib(pids) <= self.memory_mib:
            return ""
        held = processes.proportional_mib(pids)
        if held <= self.memory_mib:
            return ""
        return f"its processes held {held} MiB, the limit is {self.memory_mib} MiB"

    def host_kill(self) -> str:
        """That the kernel ended a process within the limit, for others' memory; else empty."""
        group = self.memory_group
        if group is None or not _counted(group, _KILLS) or _met_its_limit(group):
            return ""
        return (
            "the node ran out of memory and the kernel ended a process of the job, which was "
            f"within its limit of {self.memory_mib} MiB"
        )

    def kill(self) -> None:
        """Kill every member at once where the kernel offers it."""
        if self.kill_group is not None:
            with contextlib.suppress(OSError):
                (self.kill_group / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Give the groups back; members that cannot be killed keep theirs."""
        remove_groups(tuple(str(group) for group in self.groups))


def remove_groups(paths: tuple[str, ...]) -> None:
    """Remove control groups by path, as far as they are empty."""
    for path in paths:
        for _ in range(_REMOVE_TRIES):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)  # the kernel lets go of the dead a moment later
            else:
                break


def kill_groups(paths: tuple[str, ...]) -> None:
    """Kill the members of groups that support it."""
    for path in paths:
        with contextlib.suppress(OSError):
            (Path(path) / "cgroup.kill").write_text("1")


@cache
def most_processes() -> int:
    """How many processes and threads an attempt may have at once, so that others can still fork."""
    found = _MOST_PROCESSES * _PART_OF_PROCESSES
    for name in ("pid_max", "threads-max"):
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(kernel.read_small(f"/proc/sys/kernel/{name}")))
    return max(_FEWEST_PROCESSES, found // _PART_OF_PROCESSES)


def set_limits(name: str, *, memory_mib: int, cpus: int, with_groups: bool = True) -> Limits:
    """Make groups called `name` wherever this process may; never fails, see `Limits.groups`."""
    limits = Limits(memory_mib)
    if not with_groups:
        return limits
    for tree in host_trees():
        wanted = _CONTROLLERS if tree.version == 2 else tree.controllers
        missing_memory = limits.memory_group is None and "memory" in wanted
        missing_processes = not limits.has_most_processes and "pids" in wanted
        if not (missing_memory or missing_processes or "cpu" in wanted or tree.version == 2):
            continue
        group = _make_group(tree, name)
        if group is None:
            continue
        limits.groups.append(group)
        if missing_memory and _limit_memory(group, tree.version, memory_mib):
            limits.memory_group = group
        if missing_processes:
            limits.has_most_processes = _limit_processes(group)
        _limit_cpus(group, tree.version, cpus)
        if tree.version == 2 and (group / "cgroup.kill").exists():
            limits.kill_group = group
    return limits


@cache
def host_trees() -> tuple[Tree, ...]:
    """This host's, version 2 first, as they were when this process first asked."""
    return tuple(sorted(trees(), key=lambda tree: -tree.version))


def trees(
    mounts: Path = Path("/proc/self/mounts"), own: Path = Path("/proc/self/cgroup")
) -> list[Tree]:
    """The hierarchies this host has mounted, with the group where ours are made in each."""
    places: dict[str, str] = {}
    for line in own.read_text().splitlines():
        _, names, place = line.split(":", 2)
        places[names] = place
    found = []
    for line in mounts.read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup2" and "" in places:
            # A group that limits its children may hold no process itself, so ours are gathered
            # in one below the root, where a service manager does not look.
            found.append(Tree(2, _words(Path(mount, "cgroup.controllers")), Path(mount, _OURS)))
        elif kind == "cgroup":
            for names, place in places.items():
                controllers = frozenset(names.split(","))
                if names and controllers <= set(options.split(",")):
                    found.append(Tree(1, controllers, Path(mount + place.rstrip("/"))))
    return [tree for tree in found if tree.version == 2 or tree.controllers & _CONTROLLERS]


def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text().split())
    except OSError:
        return frozenset()


def _make_group(tree: Tree, name: str) -> Path | None:
    group = tree.own / name
    try:
        if tree.version == 2:
            _open_ours(tree)
        os.mkdir(group)
        os.close(os.open(f"{group}/cgroup.procs", os.O_WRONLY))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None
    return group


def _open_ours(tree: Tree) -> None:
    tree.own.mkdir(exist_ok=True)
    for controller in sorted(tree.controllers & _CONTROLLERS):
        for group in (tree.own.parent, tree.own):
            with contextlib.suppress(OSError):
                (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _limit_memory(group: Path, version: int, memory_mib: int) -> bool:
    size = memory_mib * _MIB
    try:
        if version == 2:
            _put(group, "memory.max", size)
            with contextlib.suppress(OSError):
                _put(group, "memory.swap.max", 0)
            _put(group, "memory.oom.group", 1)
        else:
            _put(group, "memory.limit_in_bytes", size)
            with contextlib.suppress(OSError):
                _put(group, "memory.memsw.limit_in_bytes", size)
    except OSError:
        return False
    return True


def _limit_processes(group: Path) -> bool:
    """A fork that fails in there is one that works for everybody else."""
    try:
        _put(group, "pids.max", most_processes())
    except OSError:
        return False
    return True


def _limit_cpus(group: Path, version: int, cpus: int) -> None:
    with contextlib.suppress(OSError):
        if version == 2:
            _put(group, "cpu.max", f"{cpus * _PERIOD_US} {_PERIOD_US}")
        elif (group / "cpu.cfs_quota_us").exists():
            _put(group, "cpu.cfs_period_us", _PERIOD_US)
            _put(group, "cpu.cfs_quota_us", cpus * _PERIOD_US)


def _put(group: Path, name: str, value: object) -> None:
    # In a fork of a warm process a stream of Python's costs more pages than the file has.
    target = os.open(f"{group}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(target, str(value).encode())
    finally:
        os.close(target)


def _met_its_limit(group: Path) -> bool:
    """Whether memory ran out there because of the group's own limit.

    Not every kernel with version 1 counts how often that was met, but all know the most it held.
    """
    if _counted(group, (("memory.events", "oom"),)) or _counted(group, (("memory.failcnt", ""),)):
        return True
    most = _counted(group, (("memory.max_usage_in_bytes", ""),))
    return most > _counted(group, (("memory.limit_in_bytes", ""),)) - _MIB > 0


def _counted(group: Path, places: Iterable[tuple[str, str]]) -> int:
    """The first count there is of these, each a file and a line's first word; empty: no word."""
    for name, wanted in places:
        with contextlib.suppress(OSError, ValueError):
            for line in kernel.read_small(f"{group}/{name}").decode().splitlines():
                key, _, count = line.rpartition(" ")
                if key == wanted:
                    return int(count)
    return 0
