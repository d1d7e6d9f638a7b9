"""Show a job folders that lie behind a closed parent, without changing any folder's mode.

A checkout in root's home, say: no other user may enter `/root`, so a job with a user id of its
own could not even start the interpreter there. In a mount namespace of the job's own, an empty
passable folder is laid over the closed one and only what was asked for is bound into it, read-only.
Nothing else of the closed folder can be seen, and outside the job nothing changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from scheduler.agent.runtime import kernel


def expose(paths: Iterable[str]) -> None:
    """Make `paths` reachable for every user in this process and its children; needs root.

    Where the host forbids new namespaces nothing happens: the start of the program then fails
    with a sentence that names the closed folder. Raises OSError when it fails half-way.
    """
    wanted: dict[str, list[str]] = {}
    for path in sorted({os.path.normpath(path) for path in paths if os.path.isdir(path)}):
        closed = closed_parent(path)
        if closed is not None:
            wanted.setdefault(closed, []).append(path)
    if not wanted:
        return
    try:
        kernel.leave_mount_namespace()
    except OSError:
        return
    for closed, shown in wanted.items():
        _lay_over(closed, _outermost(shown))


def closed_parent(path: str) -> str | None:
    """The first folder above the absolute `path` that other users cannot enter."""
    # Every job's process asks: plain text, for paths as objects copy a hundred pages of a fork.
    end = 0
    while end >= 0:
        folder = path[:end] or "/"
        try:
            if not os.stat(folder).st_mode & 0o001:
                return folder
        except OSError:
            pass  # nobody's to enter, then: the start of the program says so
        end = path.find("/", end + 1)
    return None


def _outermost(paths: list[str]) -> list[str]:
    kept: list[str] = []
    for path in paths:
        if not any(path == other or path.startswith(f"{other}/") for other in kept):
            kept.append(path)
    return kept


def _lay_over(closed: str, shown: list[str]) -> None:
    # Handles first: once the cover is laid, the names below it are gone.
    handles = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in shown]
    kernel.cover_with_empty_folder(closed)
    for path, handle in zip(shown, handles, strict=True):
        os.makedirs(path, mode=0o755, exist_ok=True)
        kernel.bind_read_only(f"/proc/self/fd/{handle}", path)
        os.close(handle)
