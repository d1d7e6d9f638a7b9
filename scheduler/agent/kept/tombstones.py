"""Which fences were here and are gone: nothing of them is ever started again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_REMEMBERED = 5000


class Tombstones:
    """The last of them, in a file; a disk that takes nothing shortens what a later agent knows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known = self._read()

    def __contains__(self, fence: int) -> bool:
        return fence in self._known

    def add(self, fences: Sequence[int]) -> None:
        """Know them from now on."""
        self._known.update(dict.fromkeys(fences))
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def note(self, fences: Sequence[int]) -> bool:
        """Write them down durably; False where the disk does not take it."""
        try:
            with open(self.path, "a", encoding="ascii") as stream:
                # On lines of their own, though the last try may have been cut short.
                stream.write("".join(f"\n{fence}\n" for fence in fences))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            return False
        return True

    def _read(self) -> dict[int, None]:
        try:
            lines = self.path.read_text(encoding="ascii").split()[-_REMEMBERED:]
        except OSError:
            return {}
        fresh = self.path.with_suffix(".new")
        with suppress(OSError):  # it only stays longer
            fresh.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
            os.rename(fresh, self.path)
        return {int(line): None for line in lines if line.isdigit()}
