"""Folders of jobs, walked and deleted by their descriptors: no link is followed.

A program may nest folders as deep as it likes: deeper than paths may be long, than Python calls
itself and than a process may have files open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# How folders are called that are only there to be deleted.
GONE = ".gone-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 64
# Of what is looked at by its descriptor or in its folder, no link followed.
MayGo = Callable[[os.stat_result], bool]


def walk(folder: int, depth: int = _DEEPEST) -> Iterator[tuple[int, str]]:
    """All below `folder`, as the descriptor of its own folder and its name, each before its inside.

    Not what lies deeper than `depth` folders, nor what cannot be opened. May raise OSError.
    """
    with os.scandir(folder) as inside:
        for one in inside:
            yield folder, one.name
            if depth and one.is_dir(follow_symlinks=False):
                with suppress(OSError), opened(one.name, folder) as inner:
                    yield from walk(inner, depth - 1)


def remove_tree(place: Path | str, may_go: MayGo | None = None) -> None:
    """Delete what lies there with all in it, as far as that goes; never raises OSError.

    What `may_go` refuses stays, with all in it. What is nested too deep is first moved up to the
    top, a piece at a time.
    """
    with suppress(OSError):
        if may_go is not None and not may_go(os.lstat(place)):
            return
    with suppress(OSError), opened(place) as top:
        while _empty(top, top, 0, may_go):
            pass
    with suppress(OSError):
        os.rmdir(place)
    with suppress(OSError):
        os.unlink(place)


def _empty(folder: int, top: int, depth: int, may_go: MayGo | None) -> int:
    """Delete what is in `folder`; says how much was deleted or moved."""
    done = 0
    if may_go is not None and not may_go(os.fstat(folder)):
        return done
    with suppress(OSError), os.scandir(folder) as inside:
        for one in inside:
            with suppress(OSError):
                if may_go is not None and not may_go(one.stat(follow_symlinks=False)):
                    continue
                is_folder = one.is_dir(follow_symlinks=False)
                if is_folder and depth < _DEEPEST:
                    done += _remove_folder(one.name, folder, top, depth, may_go)
                    continue
                if is_folder:
                    name = f"{GONE}{os.urandom(8).hex()}"
                    os.rename(one.name, name, src_dir_fd=folder, dst_dir_fd=top)
                else:
                    os.unlink(one.name, dir_fd=folder)
                done += 1
    return done


def _remove_folder(name: str, above: int, top: int, depth: int, may_go: MayGo | None) -> int:
    """Delete it, or at least what is in it; says how much that was."""
    done = 0
    with suppress(OSError), opened(name, above) as folder:
        done = _empty(folder, top, depth + 1, may_go)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)
        done += 1
    return done


@contextmanager
def opened(name: Path | str, above: int | None = None) -> Iterator[int]:
    """The folder of this name, if it is no link; raises OSError."""
    held = os.open(name, _FOLDER, dir_fd=above)
    try:
        yield held
    finally:
        os.close(held)
