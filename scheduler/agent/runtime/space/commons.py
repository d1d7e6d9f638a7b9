"""What a host has for everybody: folders like `/tmp`, and System V memory, queues and semaphores.

What a job leaves there stays its user id's, and so open to whoever gets that id next.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scheduler.agent.runtime import kernel, processes
from scheduler.agent.runtime.space.trees import remove_tree

FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 (looked into, never used)
_SYSTEM_V = Path("/proc/sysvipc")
_GIVE_UP_S = 300.0
_SHOWN = 3

logger = logging.getLogger(__name__)


class Left(NamedTuple):
    """One thing that lies there: a path at the top of a folder, else the kind and its number."""

    uid: int
    path: str
    kind: str = ""
    number: int = 0


def left(*, in_folders: bool) -> Iterator[Left]:
    """All that lies there now, with whose it is; without `in_folders` System V alone."""
    for folder in dict.fromkeys(map(os.path.realpath, FOLDERS)) if in_folders else ():
        with suppress(OSError), os.scandir(folder) as inside:
            for one in inside:
                with suppress(OSError):
                    yield Left(one.stat(follow_symlinks=False).st_uid, one.path)
    for kind in kernel.SYSTEM_V:
        with suppress(OSError):
            heads, *lines = (line.split() for line in (_SYSTEM_V / kind).open())
            for words in lines:
                told = dict(zip(heads, words, strict=False))
                # Who made it may open it like its owner.
                for uid in {told["uid"], told["cuid"]}:
                    yield Left(int(uid), "", kind, int(words[1]))


def tops_of(path: str) -> set[str]:
    """What at the top of the folders leads to `path`, or is it; nothing for an empty one."""
    found = set()
    for place in {os.path.normpath(path), os.path.realpath(path)} if path else ():
        for folder in {*FOLDERS, *map(os.path.realpath, FOLDERS)}:
            if place.startswith(f"{folder}/"):
                top = place[len(folder) + 1 :].split("/")[0]
                found.add(f"{os.path.realpath(folder)}/{top}")
    return found


def clear(uid: int, spared: Collection[str], *, in_folders: bool) -> None:
    """Delete what is `uid`'s there, but for the paths `spared`, while no process is.

    Nothing of anybody else: below a folder of the id's, too, that stays. Takes minutes at most.
    """
    found = _of(uid, spared, in_folders=in_folders)
    if not found or processes.owned_by(uid):
        return
    give_up_at = time.monotonic() + _GIVE_UP_S
    for one in found:
        if one.kind:
            with suppress(OSError):
                kernel.remove_system_v(one.kind, one.number)
        else:
            remove_tree(one.path, lambda it: it.st_uid == uid and time.monotonic() < give_up_at)
    if rest := [one for one in _of(uid, spared, in_folders=in_folders) if one.path]:
        names = ", ".join(one.path for one in rest[:_SHOWN])
        logger.warning("user id %d keeps %d places, such as %s", uid, len(rest), names)


def _of(uid: int, spared: Collection[str], *, in_folders: bool) -> list[Left]:
    every = left(in_folders=in_folders)
    return [one for one in every if one.uid == uid and one.path not in spared]
