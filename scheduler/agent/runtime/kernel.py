"""The few Linux calls that Python's standard library does not offer."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
from collections.abc import Iterable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT = 1, 2, 4, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_IPC_RMID = 0
# linux/fs.h, as of machines whose long has 64 bits; EXT4_TOPDIR_FL.
_GET_FLAGS, _SET_FLAGS, _TOP_OF_TREES = 0x80086601, 0x40086602, 0x00020000
# As /proc/sysvipc calls them: memory, semaphores, queues of messages.
SYSTEM_V = ("shm", "sem", "msg")

_PIECE = 64 * 1024
# As large as the C library's set of signals; all zero: none.
_NO_SIGNALS = bytes(128)
_SIG_SETMASK = int(signal.SIG_SETMASK)
# As this program was begun; forks of it know that, whatever their own is by then.
_NICENESS = os.getpriority(os.PRIO_PROCESS, 0)

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Orphans among our descendants become our children, however they detached themselves."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """No program started from here on gains rights by a set-uid bit."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent(signal_number: int) -> None:
    """Ask for a signal when the parent ends; must come after a change of user."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)


def set_oom_score(adjustment: int) -> None:
    """How likely the kernel ends this process where memory is short, -1000 to 1000.

    Nothing happens where that is not allowed: only root may ask to be spared.
    """
    with suppress(OSError):
        target = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(target, b"%d" % adjustment)
        finally:
            os.close(target)


def spread_folders(folder: os.PathLike[str]) -> None:
    """Tell the file system that what is made in `folder` belongs apart, as in `/home`.

    Ext4 else looks for room beside all the others: past each file that was deleted there within
    the last minutes, where it has no journal. Nothing happens on one that knows no such hint.
    """
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            told = struct.unpack("i", fcntl.ioctl(held, _GET_FLAGS, bytes(4)))[0]
            fcntl.ioctl(held, _SET_FLAGS, struct.pack("i", told | _TOP_OF_TREES))
        finally:
            os.close(held)


def go_first(steps: int) -> None:
    """Have the processors serve this process before others, by so many steps of niceness.

    Nothing happens where that is not allowed: only root may ask for more than its share.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS - steps)


def queue_up() -> None:
    """In a fork of who went first: be served like all others again."""
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


def read_small(path: str | os.PathLike[str]) -> bytes:
    """The whole content of a file; raises OSError.

    In a fork of a warm process a stream of Python's costs more pages than a small file has.
    """
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_to_end(source)
    finally:
        os.close(source)


def read_to_end(source: int) -> bytes:
    """What comes from a descriptor until its end."""
    pieces = []
    while piece := os.read(source, _PIECE):
        pieces.append(piece)
    return b"".join(pieces)


def restore_signals(numbers: Iterable[int]) -> None:
    """The system's answer to these signals, and none blocked: for who is about to be a program.

    Python's own calls turn every number into a named one, which copies a hundred pages of a fork.
    """
    for number in numbers:
        _libc.signal(number, None)
    _libc.sigprocmask(_SIG_SETMASK, _NO_SIGNALS, None)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"prctl {option}")


def remove_system_v(kind: str, number: int) -> None:
    """Take away what the system knows by this number, of a kind in `SYSTEM_V`; raises OSError."""
    if kind == "sem":
        status = _libc.semctl(number, 0, _IPC_RMID)
    else:
        call = _libc.shmctl if kind == "shm" else _libc.msgctl
        status = call(number, _IPC_RMID, None)
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"{kind} {number}")


def leave_mount_namespace() -> None:
    """From here on, mounts of this process are its own and its children's alone."""
    if _libc.unshare(_CLONE_NEWNS) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def cover_with_empty_folder(path: str) -> None:
    """Lay an empty folder over `path` that everybody may pass but nobody may list."""
    _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=0711,size=1m")


def bind_read_only(source: str, target: str) -> None:
    """Show `source` at `target` too, read-only there."""
    _mount(source, target, None, _MS_BIND | _MS_REC)
    _mount("none", target, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _mount(source: str, target: str, kind: str | None, flags: int, extra: bytes = b"") -> None:
    name = kind.encode() if kind else None
    status = _libc.mount(
        os.fsencode(source), os.fsencode(target), name, ctypes.c_ulong(flags), extra or None
    )
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), f"mount on {target}")
