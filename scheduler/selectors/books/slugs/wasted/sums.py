"""What became of held time in an account's day, and what of its cost it was for."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.selectors.books.slugs.wasted.pieces import Piece

# As both the rows that are kept and the ones that are counted call them.
SECONDS = ("held", "idle", "unread", "around", "reserved")
AMOUNTS = ("amount", "idle_amount", "reserved_amount", "shared_amount")


@dataclass(slots=True)
class Sums:
    """GPU-seconds, and amounts of which the last three are parts of `amount`.

    `unpriced`: idle seconds of who was charged nothing yet. It is not kept: a job that runs is
    charged every hour, so what is over is priced.
    """

    held: int = 0
    idle: int = 0
    unread: int = 0
    around: int = 0
    reserved: int = 0
    amount: Decimal = ZERO
    idle_amount: Decimal = ZERO
    reserved_amount: Decimal = ZERO
    shared_amount: Decimal = ZERO
    unpriced: int = 0

    def take(self, piece: Piece, read: tuple[int, int], *, is_job: bool) -> None:
        """What a piece adds; `read`: its readings, and how many of them idle."""
        readings, idle_readings = read
        idle = piece.run * idle_readings // readings if readings else 0
        unread = 0 if readings else piece.run
        shared = ZERO if is_job else EXACT.subtract(piece.amount, piece.reserved_charged)
        self.unpriced += 0 if piece.is_priced else idle
        self.add_seconds((piece.held, idle, unread, piece.around, piece.reserved))
        self.add_amounts((piece.amount, piece.idle_charged(idle), piece.reserved_charged, shared))

    def add(self, other: Sums) -> None:
        """All of another day's or account's."""
        self.unpriced += other.unpriced
        self.add_seconds((other.held, other.idle, other.unread, other.around, other.reserved))
        self.add_amounts(
            (other.amount, other.idle_amount, other.reserved_amount, other.shared_amount)
        )

    def add_seconds(self, seconds: tuple[int, ...]) -> None:
        """In the order of `SECONDS`."""
        held, idle, unread, around, reserved = seconds
        self.held += held
        self.idle += idle
        self.unread += unread
        self.around += around
        self.reserved += reserved

    def add_amounts(self, amounts: tuple[Decimal, ...]) -> None:
        """In the order of `AMOUNTS`."""
        amount, idle, reserved, shared = amounts
        self.amount = EXACT.add(self.amount, amount)
        self.idle_amount = EXACT.add(self.idle_amount, idle)
        self.reserved_amount = EXACT.add(self.reserved_amount, reserved)
        self.shared_amount = EXACT.add(self.shared_amount, shared)

    @property
    def as_kept(self) -> dict[str, int | Decimal]:
        """By the columns of `DayOfWaste`."""
        return {name: getattr(self, name) for name in (*SECONDS, *AMOUNTS)}

    @property
    def figures(self) -> tuple[int | Decimal, ...]:
        """In the order of the report's columns. What was charged for neither idle time nor kept
        time nor as a share is for use, so the four parts are the cost to the last digit."""
        parts = (self.idle_amount, self.reserved_amount, self.shared_amount)
        work = self.held - self.idle - self.unread - self.around
        seconds = (self.held, work, self.idle, self.unread, self.around, self.reserved)
        return (*seconds, self.amount, EXACT.subtract(self.amount, total(parts)), *parts)
