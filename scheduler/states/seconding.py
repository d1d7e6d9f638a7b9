"""Cancels by two people: how many jobs of others one person ends alone, what becomes of more."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

# Jobs of others that one person ends alone within the time; the next one needs a second person.
ALONE_AT_MOST = 100
ALONE_WITHIN = timedelta(hours=1)
# So long a proposal waits for the second person.
PROPOSED_FOR = timedelta(hours=24)


class CancelOutcome(StrEnum):
    """What became of a proposal to cancel many jobs."""

    WAITING = "waiting"
    AGREED = "agreed"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    LAPSED = "lapsed"
