"""Programs of the embedded default that do not stay up, as its launcher last said.

A file and no row or note in the broker: either may be what does not stay up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_NAME = "fallen.json"


@dataclass(frozen=True, slots=True)
class Fallen:
    """One of them, and when it is started again."""

    name: str
    again_at: datetime


def note_fallen(folder: Path, again_at_s: Mapping[str, float]) -> None:
    """Keep who does not stay up, by name with seconds since 1970; nothing for all that is well."""
    path = folder / _NAME
    if not again_at_s:
        path.unlink(missing_ok=True)
        return
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(again_at_s), encoding="utf-8")
    fresh.replace(path)


def read_fallen(folder: Path) -> list[Fallen]:
    """By name; none where nobody launched all of it from here, or the file cannot be read."""
    with suppress(OSError, ValueError, AttributeError, TypeError, OverflowError):
        told = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        return [Fallen(name, datetime.fromtimestamp(at, UTC)) for name, at in sorted(told.items())]
    return []
