"""Command lines as they are typed. Pure functions; `portal.py` makes them filters."""

from __future__ import annotations

import re

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

# Up to the next gap that no quotes hold; a quote that stays open and the sign at the end of a line
# are none.
_ARGUMENT = re.compile(r"""((?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+)""")


def arguments(line: str) -> SafeString:
    """Each argument as a piece of its own, so that a narrow box breaks between two: after the
    hyphens of `--name` the halves would read as two. As a text it stays the same."""
    parts = enumerate(_ARGUMENT.split(line))
    # Every other one is an argument; a plain word breaks nowhere.
    return format_html_join("", "{}", ((_piece(part, place % 2 == 1),) for place, part in parts))


def _piece(part: str, is_argument: bool) -> str:
    return format_html("<span>{}</span>", part) if is_argument and not part.isalnum() else part
