"""Which data sets lie on this node: the folders in a folder that the operator names.

They are measured every quarter of an hour in a thread of their own, as a large one takes minutes. A
copy that is still being made counts with what is there of it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from scheduler.wire.data import DATASET_NAME, MAX_DATASETS, DataCopy, DataReport

_MIB = 2**20
_NAMED = 3

logger = logging.getLogger(__name__)


class DataFolders:
    """Looks at `folders` every `every_s` from `start` on; without folders it says nothing."""

    def __init__(self, folders: Sequence[str], every_s: float) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._every_s = every_s
        self._found: DataReport | None = None
        self._told: DataReport | None = None

    def start(self) -> None:
        """Begin to look."""
        if self._folders:
            threading.Thread(target=self._watch, name="data", daemon=True).start()

    def untold(self, *, is_known: bool) -> DataReport | None:
        """What the server does not know; all of it, if it knows nothing of this agent yet."""
        return self._found if not is_known or self._found != self._told else None

    def note_told(self, report: DataReport | None) -> None:
        """The server has it now."""
        self._told = report or self._told

    def _watch(self) -> None:
        while True:
            found = look(self._folders)
            if found.problem and (self._found is None or found.problem != self._found.problem):
                logger.warning("data sets: %s", found.problem)
            self._found = found
            time.sleep(self._every_s)


def look(folders: Sequence[Path]) -> DataReport:
    """The data sets in these folders; of two with one name the first."""
    names: dict[str, Path] = {}
    odd, problems = list[str](), list[str]()
    for folder in folders:
        try:
            entries = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        except OSError as error:
            problems.append(f"{folder} cannot be read ({error.strerror})")
            continue
        for name in entries:
            if DATASET_NAME.fullmatch(name):
                names.setdefault(name, folder / name)
            elif not name.startswith("."):
                odd.append(os.fsencode(name).decode("utf-8", "backslashreplace")[:40])
    if odd:
        more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
        problems.append(
            f"left out {', '.join(odd[:_NAMED])}{more}: names are lower-case letters, digits, dots "
            "and dashes"
        )
    if len(names) > MAX_DATASETS:
        problems.append(f"only the first {MAX_DATASETS} of {len(names)} folders are told")
    chosen = sorted(names.items())[:MAX_DATASETS]
    copies = [DataCopy(name, -(-sum(_sizes(folder)) // _MIB)) for name, folder in chosen]
    return DataReport(tuple(copies), "; ".join(problems))


def _sizes(folder: Path) -> Iterator[int]:
    """Bytes of each file below the folder, as deep as paths may be long.

    Links are not followed, what vanishes is no matter.
    """
    to_see = [os.fspath(folder)]
    while to_see:
        with suppress(OSError), os.scandir(to_see.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        to_see.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.stat(follow_symlinks=False).st_size
