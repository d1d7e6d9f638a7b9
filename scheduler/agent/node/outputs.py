"""What lies in a job's output folder, read with care: the program that wrote it is not trusted."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from scheduler.agent.runtime.space.trees import opened
from scheduler.wire.outputs import (
    MAX_OUTPUT_BYTES,
    MAX_OUTPUT_NAME,
    MAX_OUTPUTS,
    OUTPUT_PART,
    OutputEntry,
    OutputList,
    OutputRefusal,
    problem_of_name,
)

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_DEPTH = 16
_MAX_SEEN = 20_000
# The server takes no call above 2 MiB.
_MAX_LIST = 1_800_000
_AROUND = 160  # size, digest and the names of fields
_WORDS = {
    errno.ELOOP: "it is a link; copy what it points to into the folder",
    errno.ENXIO: "it is a socket or a device without a driver",
}


class UnfitOutput(Exception):
    """Why a file is not handed over."""


def list_outputs(folder: str, uid: int | None) -> OutputList:
    """All files below the folder with their digests, and what is no fit file with the reason.

    Nothing is followed: links, devices, pipes and files of other users are named and left alone.
    """
    entries: list[OutputEntry] = []
    refused: list[OutputRefusal] = []
    room = _MAX_LIST
    for seen, name in enumerate(_all_names(folder)):
        if seen >= _MAX_SEEN or len(entries) >= MAX_OUTPUTS:
            problem = f"only the first {MAX_OUTPUTS} files are kept; put many into one archive"
            refused[MAX_OUTPUTS - 1 :] = [OutputRefusal("…", problem)]
            break
        shown = _shown(name)
        # Of more refusals than that none are sent.
        if len(refused) < MAX_OUTPUTS:
            room -= len(json.dumps(shown, ensure_ascii=False).encode()) + _AROUND
        if room < 0:
            problem = f"the names of more than {seen} files are too long; put many into one archive"
            refused[MAX_OUTPUTS - 1 :] = [OutputRefusal("…", problem)]
            break
        try:
            if problem := problem_of_name(name):
                raise UnfitOutput(problem)
            with opened_output(folder, name, uid) as source:
                entries.append(_entry(name, source))
        except UnfitOutput as unfit:
            refused.append(OutputRefusal(shown, str(unfit)))
        except OSError as error:
            refused.append(OutputRefusal(shown, _why(error)))
    return OutputList(tuple(entries), tuple(refused[:MAX_OUTPUTS]))


@contextmanager
def opened_output(folder: str, name: str, uid: int | None) -> Iterator[int]:
    """The plain file of this name, opened step by step without following a link.

    Raises OSError, or UnfitOutput for what is no plain file of the job's own.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in name.split("/"):
            inner = os.open(part, _READ, dir_fd=held)
            os.close(held)
            held = inner
        status = os.fstat(held)
        if not stat.S_ISREG(status.st_mode):
            raise UnfitOutput("it is no plain file")
        if uid is not None and status.st_uid != uid:
            # A hard link to somebody else's file would be read with the agent's rights.
            raise UnfitOutput("it belongs to another user")
        yield held
    finally:
        os.close(held)


def _entry(name: str, source: int) -> OutputEntry:
    size = os.fstat(source).st_size
    if size > MAX_OUTPUT_BYTES:
        raise UnfitOutput(f"it is larger than {MAX_OUTPUT_BYTES // 1024**3} GiB; keep it elsewhere")
    digest, offset = hashlib.sha256(), 0
    while offset < size and (block := os.pread(source, min(OUTPUT_PART, size - offset), offset)):
        digest.update(block)
        offset += len(block)
    return OutputEntry(name, offset, digest.hexdigest())


def _all_names(folder: str) -> Iterator[str]:
    with suppress(OSError), opened(folder) as held:
        yield from _names_below(held)


def _names_below(folder: int, above: str = "", depth: int = 0) -> Iterator[str]:
    """Names of all but folders, from `folder` down, in order. Does not enter linked folders.

    Of a folder with more than anybody looks at, those that its file system has first.
    """
    with os.scandir(folder) as found:
        inside = sorted(islice(found, _MAX_SEEN + 1), key=lambda one: one.name)
    for one in inside:
        name = f"{above}/{one.name}" if above else one.name
        if not one.is_dir(follow_symlinks=False):
            yield name
        elif depth < _MAX_DEPTH:
            # By descriptor: a name may have become a link meanwhile.
            with suppress(OSError), opened(one.name, folder) as inner:
                yield from _names_below(inner, name, depth + 1)
        else:
            yield f"{name}/"


def holds_something(folder: str) -> bool:
    """Whether anything at all lies there."""
    try:
        with os.scandir(folder) as found:
            return next(found, None) is not None
    except (OSError, ValueError):
        return False


def _shown(name: str) -> str:
    """A name that can be shown, whatever bytes it has."""
    safe = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in safe)[:MAX_OUTPUT_NAME]


def _why(error: OSError) -> str:
    return _WORDS.get(error.errno or 0) or error.strerror or str(error)
