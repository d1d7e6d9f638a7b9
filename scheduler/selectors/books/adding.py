"""Which figures of a row are the sum of others, so that they are printed to add up."""

from __future__ import annotations

from typing import NamedTuple


class Adds(NamedTuple):
    """Columns, by name: in every row and in its foot `whole` is the sum of `parts` and `beside`.

    A page rounds `whole` and `beside` each by itself, as they stand elsewhere, and `parts` so that
    what is printed adds up. All are of one form: hours or amounts.
    """

    whole: str
    parts: tuple[str, ...]
    beside: tuple[str, ...] = ()
