"""All style sheets as one file: a page waits for one answer before it shows, not for thirteen."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

NAME = "css/all.css"
# In this order; `small` last, so that it may narrow what the others said.
SHEETS = (
    "tokens",
    "base",
    "shell",
    "components",
    "tables",
    "forms",
    "pages",
    "log",
    "work",
    "palette",
    "cluster",
    "sessions",
    "small",
)
_SOURCES = Path(__file__).resolve().parents[2] / "static" / "css"


class JoinedStyles(BaseFinder):
    """Offers that file to whoever collects or serves static files; written when it has changed."""

    storages: dict[str, Any] = {}

    def check(self, **kwargs: Any) -> list[Any]:
        """Nothing can be configured wrong."""
        return []

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        """Where it is, for a server that collects nothing."""
        if path != NAME:
            # Never None: Django puts that into its list of what was found.
            return []
        found = str(_write(_folder()))
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Any]]:
        """The file and where it is, for `collectstatic`."""
        folder = _folder()
        _write(folder)
        yield NAME, FileSystemStorage(folder)


def _folder() -> Path:
    return Path(settings.STATE_DIR) / "styles"


def _write(folder: Path) -> Path:
    target = folder / NAME
    joined = b"\n".join((_SOURCES / f"{name}.css").read_bytes() for name in SHEETS)
    if not target.exists() or target.read_bytes() != joined:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        beside.write_bytes(joined)
        beside.replace(target)
    return target
