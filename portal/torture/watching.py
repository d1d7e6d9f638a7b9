"""Looking at a run while it goes on, for breaks that need no end to be seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from portal.torture import aftermath
from portal.torture.history import Diary, Evidence, read_lines
from portal.torture.invariants import INVARIANTS
from portal.torture.program import NEEDLE, TIME_LIMIT_S, read_witness
from portal.torture.yard import Yard

_EVERY_S = 2.0
# True of what is read a moment later than something else, also where all is well.
_TOO_EARLY = ("nobody was told of it", "nobody ordered it")


def rules_of(yard: Yard) -> dict[str, Any]:
    """What a run must keep to, and what arrived where the checker can see it."""
    return {
        "needle": NEEDLE,
        "ended_at": time.time(),
        "stop_within_s": 90.0,
        "lost_after_s": yard.timers.lost_after_s,
        "time_limit_s": TIME_LIMIT_S,
        "steps": list(yard.steps),
        "arrived": aftermath.subjects_of_mails(yard.places.state / "mail"),
    }


class Watch:
    """Looks at some invariants now and then; `evidence` is what broke one, None so far."""

    def __init__(self, yard: Yard, diary: Diary, witness: Path, names: Sequence[str]) -> None:
        self.yard, self.diary, self.witness = yard, diary, witness
        self.names = names
        self.evidence: Evidence | None = None
        self._looked_at = float("-inf")

    def has_seen(self) -> bool:
        """Whether something is broken; looks again unless it has done so just now."""
        is_due = time.monotonic() - self._looked_at > _EVERY_S
        if self.names and self.evidence is None and is_due:
            try:
                found = self._read()
            except (psycopg.Error, OSError, ValueError):
                # The database is away for a moment, or a line is only half written.
                return False
            self._looked_at = time.monotonic()
            if self.breaks(found):
                self.evidence = found
        return self.evidence is not None

    def _read(self) -> Evidence:
        """What was told, then the rows, then what programs say: each is younger than the last."""
        told = read_lines(self.diary.path)
        tables = aftermath.read_tables(self.yard.database)
        pieces = aftermath.read_pieces(self.yard.places.state / "files", tables["logchunk"])
        return Evidence([*told, *read_witness(self.witness)], tables, pieces, rules_of(self.yard))

    def breaks(self, found: Evidence) -> bool:
        """Whether this shows a break of what is watched, as far as that can be told so early."""
        return any(
            words and not words.endswith(_TOO_EARLY)
            for name in self.names
            for words in INVARIANTS[name](found)
        )
