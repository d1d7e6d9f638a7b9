"""The words of schedules: what happens while the last job goes on, and what came of a due time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Overlap(StrEnum):
    """What happens at a due time while an earlier job of the schedule waits or runs."""

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


OVERLAP_WORDS: Mapping[Overlap, str] = {
    Overlap.SKIP: "skip this time",
    Overlap.QUEUE: "submit one that waits for it",
    Overlap.REPLACE: "cancel it and submit a new one",
}


class RunOutcome(StrEnum):
    """What came of one due time."""

    SUBMITTED = "submitted"
    SKIPPED = "skipped"
    REFUSED = "refused"
    MISSED = "missed"


OUTCOME_WORDS: Mapping[RunOutcome, str] = {
    RunOutcome.SUBMITTED: "submitted",
    RunOutcome.SKIPPED: "skipped",
    RunOutcome.REFUSED: "refused",
    RunOutcome.MISSED: "missed",
}
