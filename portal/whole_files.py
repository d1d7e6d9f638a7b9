"""Where bytes of logs, outputs and reports lie: each file whole under its name, or not there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from django.core.files.base import File
from django.core.files.storage import FileSystemStorage
from django.utils.deconstruct import deconstructible

_MOST_REMEMBERED = 5_000


@deconstructible(path="portal.whole_files.WholeFiles")
class WholeFiles(FileSystemStorage):
    """Saving under a name that is taken puts the new file in the old one's place, at once: who
    reads meanwhile gets one of them, and a crash leaves one of them.

    `lasts`: saved bytes and names survive a power cut before `save` returns. It is asked for where
    the database's commits survive it, too; where they do not, the bytes' rows would be gone anyway.
    """

    def __init__(self, *, lasts: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.lasts = lasts
        self._lasting: set[Path] = set()

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        """The name that was asked for."""
        return name

    def _save(self, name: str, content: File[Any]) -> str:
        path = Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with fresh.open("xb") as target:
                for block in content.chunks():
                    target.write(block)
                if self.lasts:
                    target.flush()
                    os.fsync(target.fileno())
            if self.file_permissions_mode is not None:
                fresh.chmod(self.file_permissions_mode)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        if self.lasts:
            self._make_last(path.parent)
        return name

    def _make_last(self, folder: Path) -> None:
        """Flush the folder with the new name, and those above that this process never flushed."""
        root = Path(self.location)
        _flush(folder)
        while folder != root and folder not in self._lasting:
            if len(self._lasting) >= _MOST_REMEMBERED:
                self._lasting.clear()
            self._lasting.add(folder)
            folder = folder.parent
            _flush(folder)


def _flush(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
