"""A folder of an attempt that lies in memory alone, so that its content never reaches a disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from scheduler.agent.runtime.space.trees import remove_tree
from scheduler.wire.secrets import SecretValue

_MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of our own is made below it, closed to others)


def memory_folder(agent: str, fence: int, rank: int) -> Path:
    """Where it lies; `agent` tells two agents of one host apart."""
    return _MEMORY / f"{agent}-{fence}-{rank}"


def memory_note(name: str) -> Path:
    """Where a file of the agent's own lies that no disk can fail."""
    return _MEMORY / name


def make_memory_folder(place: Path) -> Path:
    """Create it anew, empty and the agent's until it is filled; raises OSError."""
    remove_memory_folder(str(place))
    place.mkdir(mode=0o700)
    return place


def put_secrets(place: Path, values: Iterable[SecretValue], uid: int | None) -> str:
    """Write each value into a file of its own that the job alone can read; raises OSError.

    `place` is the agent's yet: in a folder of the job's there could be links in the way.
    """
    folder = place / "secrets"
    folder.mkdir(mode=0o700)
    for one in values:
        target = os.open(folder / one.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with open(target, "wb") as stream:
            stream.write(one.value.encode())
            if uid is not None:
                os.fchown(target, uid, uid)
    if uid is not None:
        os.chown(folder, uid, uid)
    folder.chmod(0o500)
    return str(folder)


def values_in(folder: str) -> list[str]:
    """What the files hold; for the one who masks it."""
    if not folder:
        return []
    return [path.read_text("utf-8", "replace") for path in sorted(Path(folder).iterdir())]


def remove_memory_folder(place: str) -> None:
    """Give the memory back; nothing happens when there is none."""
    if place:
        remove_tree(place)


def remove_memory_of_others(
    agent: str, known: Collection[str], remove: Callable[[Path], object] = remove_tree
) -> None:
    """Have all removed that this agent made for any but the attempts in `known`.

    Each is `<fence>-<rank>`.
    """
    begin = f"{agent}-"
    for place in _MEMORY.glob(f"{begin}*-*"):
        if place.is_dir() and place.name.removeprefix(begin) not in known:
            remove(place)
