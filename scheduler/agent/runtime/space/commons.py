"""What a host has for everybody: folders like `/tmp`, and System V memory, queues and semaphores.

What a job leaves there stays its user id's, and so open to whoever gets that id next.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scheduler.agent.runtime import kernel, processes
from scheduler.agent.runtime.space.trees import remove_tree

FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 (looked into, never used)
_SYSTEM_V = Path("/proc/sysvipc")
_GIVE_UP_S = 300.0
# Entries of a folder that changed so lately may change again without its time telling it apart;
# and whoever may give files away does it without changing their folder.
_SETTLES_S, _TRUSTED_S = 1.0, 10.0
_SHOWN = 3

logger = logging.getLogger(__name__)


class Left(NamedTuple):
    """One thing that lies there: a path at the top of a folder, else the kind and its number."""

    uid: int
    path: str
    kind: str = ""
    number: int = 0


def left(uids: Container[int], *, in_folders: bool) -> list[Left]:
    """All that is one of `uids`'s there now; without `in_folders` System V alone.

    One look for many ids: a host may have hundreds of entries in `/tmp`.
    """
    found = list[Left]()
    for folder in dict.fromkeys(map(os.path.realpath, FOLDERS)) if in_folders else ():
        with suppress(OSError):
            found += [Left(uid, path) for uid, path in _owners(folder) if uid in uids]
    for kind in kernel.SYSTEM_V:
        with suppress(OSError):
            heads, *lines = (_SYSTEM_V / kind).read_text().splitlines()
            for words in map(str.split, lines):
                told = dict(zip(heads.split(), words, strict=False))
                # Who made it may open it like its owner.
                its = {int(told["uid"]), int(told["cuid"])}
                found += [Left(uid, "", kind, int(words[1])) for uid in its if uid in uids]
    return found


class _Look(NamedTuple):
    """What lay in a folder: by owner the paths, at monotonic `at`, and what told it apart."""

    mark: tuple[int, int, int]
    at: float
    owners: list[tuple[int, str]]


_looks: dict[str, _Look] = {}


def _owners(folder: str) -> list[tuple[int, str]]:
    """Who owns what lies at the top of a folder; raises OSError.

    The same as to look at each entry now. That is not done again while the folder itself says that
    nothing came or went: agents of busy nodes look many times a second.
    """
    status = os.stat(folder)
    mark, now = (status.st_dev, status.st_ino, status.st_mtime_ns), time.monotonic()
    last = _looks.get(folder)
    if last is not None and last.mark == mark and now - last.at < _TRUSTED_S:
        return last.owners
    owners = []
    with os.scandir(folder) as inside:
        for one in inside:
            with suppress(OSError):
                owners.append((one.stat(follow_symlinks=False).st_uid, one.path))
    _looks.pop(folder, None)
    if time.time() - status.st_mtime > _SETTLES_S:
        _looks[folder] = _Look(mark, now, owners)
    return owners


def tops_of(path: str) -> set[str]:
    """What at the top of the folders leads to `path`, or is it; nothing for an empty one."""
    found = set()
    for place in {os.path.normpath(path), os.path.realpath(path)} if path else ():
        for folder in {*FOLDERS, *map(os.path.realpath, FOLDERS)}:
            if place.startswith(f"{folder}/"):
                top = place[len(folder) + 1 :].split("/")[0]
                found.add(f"{os.path.realpath(folder)}/{top}")
    return found


def clear(uid: int, found: Iterable[Left], spared: Collection[str]) -> None:
    """Delete what of `found` is `uid`'s, but for the paths `spared`, while no process is.

    Nothing of anybody else: below a folder of the id's, too, that stays. Takes minutes at most.
    """
    mine = [one for one in found if one.uid == uid and one.path not in spared]
    if not mine or processes.owned_by(uid):
        return
    give_up_at = time.monotonic() + _GIVE_UP_S
    for one in mine:
        if one.kind:
            with suppress(OSError):
                kernel.remove_system_v(one.kind, one.number)
        else:
            remove_tree(one.path, lambda it: it.st_uid == uid and time.monotonic() < give_up_at)
    if rest := [one.path for one in mine if one.path and os.path.lexists(one.path)]:
        names = ", ".join(rest[:_SHOWN])
        logger.warning("user id %d keeps %d places, such as %s", uid, len(rest), names)
