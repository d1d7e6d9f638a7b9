"""Start a program in namespaces of its own with bubblewrap (`bwrap`), seeing only what it may.

    supervisor -> bwrap, the monitor -> bwrap, the first process inside -> the program

The monitor's exit code is the program's, signals as 128 + number. A stop signal must not reach the
monitor, which would end and take the program with it: it goes to the group that the first process
inside leads, and that one, being first in its namespace, is immune to what it does not handle.

Manual: bwrap(1), version 0.5 or newer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime import processes
from scheduler.agent.runtime.records import SandboxPlan

# Read-only inside; those that are links stay links.
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt")
_DEVICES_OF_KERNEL = "/sys"
_PATIENCE_S = 30.0
_LOOK_S = 0.001
_MAX_NEWS = 65_536
_SIGNALS_FROM = 128
_LAST_SIGNAL = 64


def arguments(plan: SandboxPlan, working_dir: str, status: int | None = None) -> list[str]:
    """The command line up to the program's own; `status`: descriptor for bwrap's news, if anybody
    wants them."""
    words = [plan.program, "--unshare-user", "--unshare-pid", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    if not plan.shared_memory:
        words.append("--unshare-ipc")
    if not plan.network:
        words.append("--unshare-net")
    for folder in SYSTEM_FOLDERS:
        words += _system(folder)
    words += ["--ro-bind", _DEVICES_OF_KERNEL, _DEVICES_OF_KERNEL, "--proc", "/proc"]
    words += ["--dev", "/dev"]
    if plan.shared_memory:
        words += ["--bind", plan.shared_memory, "/dev/shm"]  # noqa: S108 (it is the sandbox's own)
    for device in plan.devices:
        words += ["--dev-bind-try", device, device]
    words += ["--bind", plan.temporary, "/tmp", "--bind", plan.temporary, "/var/tmp"]  # noqa: S108 (the same)
    names = os.path.realpath("/etc/resolv.conf")
    words += ["--ro-bind-try", names, names]
    words += _several("--ro-bind-try", plan.read_only) + _several("--bind-try", plan.writable)
    for hidden in plan.hidden:
        words += ["--tmpfs", hidden]
    words += _several("--bind", plan.own) + _several("--ro-bind-try", plan.own_read_only)
    # Not through bwrap's own copy of the environment: what is in ours goes on as it is.
    words += ["--remount-ro", "/", "--chdir", working_dir]
    return words if status is None else [*words, "--json-status-fd", str(status)]


def _system(folder: str) -> list[str]:
    if os.path.islink(folder):
        return ["--symlink", os.readlink(folder), folder]
    return ["--ro-bind", folder, folder] if os.path.isdir(folder) else []


def _several(option: str, paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in (option, path, path)]


def sees(plan: SandboxPlan, path: str) -> bool:
    """Whether `path` is there inside, links followed."""
    return all(_is_shown(plan, place) for place in {os.path.normpath(path), os.path.realpath(path)})


def _is_shown(plan: SandboxPlan, path: str) -> bool:
    own = (*plan.own, *plan.own_read_only)
    if is_below(path, own):
        return True
    shown = (*SYSTEM_FOLDERS, *plan.read_only, *plan.writable)
    return is_below(path, shown) and not is_below(path, plan.hidden)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of `folders` or lies in one."""
    return any(Path(path).is_relative_to(folder) for folder in folders)


def wait_for_program(monitor: int, status: int) -> str:
    """Wait until the program runs or has run; says what went wrong, else empty.

    `status` is the reading end of what bwrap tells, an exit code only of a program that it could
    execute. It stays open: bwrap tells it at the very end, and would die of a closed pipe.
    """
    give_up_at = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up_at:
        if _has_ended(monitor):
            if any("exit-code" in each for each in _lines(os.read(status, _MAX_NEWS))):
                return ""
            return "start the program in its sandbox; the log's last lines say why"
        if _runs_inside(monitor):
            return ""
        time.sleep(_LOOK_S)
    return ""


def _lines(told: bytes) -> list[dict[str, object]]:
    found = []
    for line in told.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict)]


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _runs_inside(monitor: int) -> bool:
    """Whether the first process inside has a child that is no longer bwrap itself."""
    first = first_inside(monitor)
    if first is None:
        return False
    own = _command_line(first)
    return any(_command_line(pid) not in (b"", own) for pid in processes.children(first))


def first_inside(monitor: int) -> int | None:
    """The pid, as seen from here, of the first process in the sandbox of `monitor`."""
    return next(iter(processes.children(monitor)), None)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def plain_code(code: int) -> int:
    """A monitor's exit code as the program's: 137 becomes -9. A program may also say 137 itself."""
    number = code - _SIGNALS_FROM
    return -number if 0 < number <= _LAST_SIGNAL else code
