"""Show a job folders that lie behind a closed parent, without changing any folder's mode.

A checkout in root's home, say: no other user may enter `/root`, so a job with a user id of its
own could not even start the interpreter there. In a mount namespace of the job's own, an empty
passable folder is laid over the closed one and only what was asked for is bound into it, read-only.
Nothing else of the closed folder can be seen, and outside the job nothing changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from scheduler.agent.runtime import kernel


def expose(paths: Iterable[str]) -> None:
    """Make `paths` reachable for every user in this process and its children; needs root.

    Where the host forbids new namespaces nothing happens: the start of the program then fails
    with a sentence that names the closed folder. Raises OSError when it fails half-way.
    """
    wanted: dict[Path, list[Path]] = {}
    for path in sorted({Path(path) for path in paths if os.path.isdir(path)}):
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


def closed_parent(path: Path) -> Path | None:
    """The first folder above `path` that other users cannot enter."""
    for folder in reversed(path.parents):
        with contextlib.suppress(OSError):
            if not folder.stat().st_mode & 0o001:
                return folder
    return None


def _outermost(paths: list[Path]) -> list[Path]:
    kept: list[Path] = []
    for path in paths:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _lay_over(closed: Path, shown: list[Path]) -> None:
    # Handles first: once the cover is laid, the names below it are gone.
    handles = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in shown]
    kernel.cover_with_empty_folder(str(closed))
    for path, handle in zip(shown, handles, strict=True):
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        kernel.bind_read_only(f"/proc/self/fd/{handle}", str(path))
        os.close(handle)
