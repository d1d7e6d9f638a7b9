"""A word of our own that stands in the statement, not beside it."""

from __future__ import annotations

from typing import Any

from django.db.models import Value


class Word(Value):
    """Equals `Value(word)`, and where an index holds only the rows with that word, SQLite knows so
    and reads no row to see whether the word is there.

    For states and the like, which the code names. Raises ValueError for what is no such word.
    """

    def __init__(self, word: str) -> None:
        if not word.isidentifier() or not word.isascii():
            raise ValueError(f"{word!r} is no word of our own; give it as a value")
        super().__init__(str(word))

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        """With quotes around; there is nothing in it to escape."""
        return f"'{self.value}'", ()
