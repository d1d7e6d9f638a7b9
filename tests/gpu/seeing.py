"""What the program for a card says, read."""

from __future__ import annotations


def said(word: str, text: str) -> list[str]:
    """What follows this word on the first line that begins with it."""
    (found, *_) = (line.split()[1:] for line in text.splitlines() if line.split()[:1] == [word])
    return found


def seen(text: str) -> list[str]:
    """UUIDs of the cards a program saw."""
    return said("sees", text)
