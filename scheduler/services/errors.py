"""The refusals of this room; the classes are shared with accounts."""

from accounts.errors import (
    Conflict,
    DomainError,
    Forbidden,
    IdempotencyConflict,
    Invalid,
    NotFound,
    StaleVersion,
)

__all__ = [
    "Conflict",
    "DomainError",
    "Forbidden",
    "IdempotencyConflict",
    "Invalid",
    "LeaseLost",
    "LogGap",
    "NotFound",
    "StaleVersion",
]


class LogGap(Conflict):
    """Bytes are missing before this chunk; `expected` is the offset to go on from."""

    code = "log_gap"

    def __init__(self, expected: int) -> None:
        super().__init__(
            f"The log is stored up to byte {expected}; send on from there.",
            facts={"expected": str(expected)},
        )
        self.expected = expected


class LeaseLost(RuntimeError):
    """Another scheduler holds the lease now; nothing of this plan was written."""
