"""What a close has to say: each finding names what is wrong, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """Kinds of findings. Only NO_WEIGHTS is a remark; every other one blocks the close."""

    OVERLAP = "overlap"
    GAP = "gap"
    NEGATIVE_IDLE = "negative_idle"
    NO_RATE = "no_rate"
    NO_ATTRIBUTION = "no_attribution"
    FOREIGN_CURRENCY = "foreign_currency"
    NOT_OVER = "not_over"
    EARLIER_OPEN = "earlier_open"
    BROKEN_CHAIN = "broken_chain"
    UNDECIDED = "undecided"
    DEMONSTRATION = "demonstration"
    NO_WEIGHTS = "no_weights"


REMARKS = frozenset({Trouble.NO_WEIGHTS})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing found. `subject` is the device, attempt, SKU, account or period it is about."""

    trouble: Trouble
    subject: str
    words: str

    @property
    def blocks(self) -> bool:
        """Whether the period cannot be closed with it."""
        return self.trouble not in REMARKS


def blocking(findings: list[Finding]) -> list[Finding]:
    """Those that keep a period from being closed, in a fixed order."""
    return sorted(finding for finding in set(findings) if finding.blocks)
