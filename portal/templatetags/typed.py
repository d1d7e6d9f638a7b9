"""Command lines as they are typed. Pure functions; `portal.py` makes them filters."""

from __future__ import annotations

import re

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

# Up to the next gap that no quotes hold; a quote that stays open and the sign at the end of a line
# are none.
_ARGUMENT = re.compile(r"""((?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+)""")


# An option and its value are one piece up to this many characters: the narrowest box holds them.
_PAIR_AT_MOST = 32


def arguments(line: str) -> SafeString:
    """Each argument as a piece of its own, a short option with its value, so that a narrow box
    breaks between two: after the hyphens of `--name` the halves would read as two. As a text it
    stays the same."""
    # Every other one is an argument, the others are the gaps.
    parts, pieces, place = _ARGUMENT.split(line), list[str](), 0
    while place < len(parts):
        pair = "".join(parts[place : place + 3])
        length = 3 if place % 2 and _is_pair(parts[place : place + 3], pair) else 1
        part = "".join(parts[place : place + length])
        # A plain word breaks nowhere.
        is_piece = place % 2 == 1 and not part.isalnum()
        pieces.append(format_html("<span>{}</span>", part) if is_piece else part)
        place += length
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def _is_pair(parts: list[str], pair: str) -> bool:
    if len(parts) < 3 or len(pair) > _PAIR_AT_MOST or parts[1] != " ":
        return False
    return len(parts[0]) > 2 and parts[0][:2] == "--" != parts[2][:2]
