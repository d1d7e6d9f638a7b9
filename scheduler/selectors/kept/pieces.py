"""The stored bytes of a piece of a log, or what is shown in their place where they are gone."""

from __future__ import annotations

from django.core.files.storage import default_storage

from scheduler.models import LogChunk

_GONE = "[trainyard] {size} bytes of the log are missing here: the store has them no more."


def bytes_of(piece: LogChunk) -> bytes:
    """As they were sent; a piece that is not in the store is a gap of its size and line ends.

    So every line behind it keeps its number and every byte its offset. A store that cannot be read
    now raises OSError.
    """
    try:
        with default_storage.open(piece.path) as file:
            content: bytes = file.read()
    except FileNotFoundError:
        return _gap(piece.size, piece.lines)
    return content


def _gap(size: int, lines: int) -> bytes:
    """The words and blanks, in lines about as long as those that were there."""
    words = _GONE.format(size=size).encode()[: size - lines]
    blanks = size - lines - len(words)
    if not lines:
        return words + b" " * blanks
    each, more = divmod(blanks, lines)
    return words + b" " * (each + more) + b"\n" + (b" " * each + b"\n") * (lines - 1)
