"""By which method a pool's spare time was shared, as an export names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.ledger.rating import ChargeKind
from scheduler.ledger.shares import IdlePolicy

# The name in a close's note, and the lines that came of it.
_KINDS = {"idle": ChargeKind.IDLE_SHARE, "platform": ChargeKind.PLATFORM_SHARE}


def methods_of(notes: Iterable[Mapping[str, Any]]) -> dict[str, dict[ChargeKind, str]]:
    """`idle-by-use-v1` and the like, by pool and kind, from a close's notes of what it shared.

    A mixture says how many percent go by guarantee: another percentage is another method.
    """
    found: dict[str, dict[ChargeKind, str]] = {}
    for note in notes:
        for name, kind in _KINDS.items():
            policy = note.get(name, IdlePolicy.NONE)
            if policy == IdlePolicy.NONE:
                continue
            percent = f"-{note['guarantee_percent']}" if policy == IdlePolicy.HYBRID else ""
            method = f"{name}-{policy.replace('_', '-')}{percent}-v1"
            found.setdefault(str(note["pool"]), {})[kind] = method
    return found
