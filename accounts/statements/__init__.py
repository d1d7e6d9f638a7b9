"""Reads and changes whose statement is built once, and many of them asked as one."""

from accounts.statements.built import AskedOnce, AskedOnceFor, BuiltOnce, ChangedOnce
from accounts.statements.counts import CountsOnce
from accounts.statements.numbers import RealNumber, WholeNumber
from accounts.statements.together import Asked, asked_together, read_together
from accounts.statements.ungrouped import LookedUp, Null, Ungrouped
from accounts.statements.unindexed import empty_here
from accounts.statements.words import Word

__all__ = [
    "Asked",
    "AskedOnce",
    "AskedOnceFor",
    "BuiltOnce",
    "ChangedOnce",
    "CountsOnce",
    "LookedUp",
    "Null",
    "RealNumber",
    "Ungrouped",
    "WholeNumber",
    "Word",
    "asked_together",
    "empty_here",
    "read_together",
]
