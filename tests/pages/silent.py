"""Parameters that a page knows, and whether it says so when their values make no sense."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[2] / "portal"
ROOMS = ("pages", "forms", "reports")
# Any text is a value of these, or they are fields of a form that says what is wrong at the field
# once it is sent, or they name a fragment, which no person writes.
FREE = frozenset(
    "part q text actor on_behalf_of object action after name reason next "
    "head_patience_s placement preempts".split()
)
NONSENSE = "zz\x07;-1"
_READ = re.compile(r'(?:GET(?:\.get(?:list)?\(|\[)|choice\(request, |query\.get\()"(\w+)"')
_LEAF = re.compile(r'leaf_of\(.+?, "(\w+)"', re.DOTALL)
_LISTED = re.compile(r"PARAMETERS = \(([^)]*)\)")
_SAID = re.compile(r'class="(note[^"]*|err|fault)"')
_UNKNOWN = re.compile(r"Not known here and not used:(.*?)</div>", re.DOTALL)


def parameters() -> list[str]:
    """All that any page reads, from the sources."""
    found: set[str] = set()
    for path in (path for room in ROOMS for path in (PAGES / room).rglob("*.py")):
        text = path.read_text("utf-8")
        found |= set(_READ.findall(text)) | set(_LEAF.findall(text))
        for listed in _LISTED.findall(text):
            found |= set(re.findall(r'"(\w+)"', listed))
    return sorted(found - FREE)


def known_of(page: str, sent: Iterable[str]) -> list[str]:
    """Which of the parameters that were sent the page does not call unknown."""
    told = _UNKNOWN.search(page)
    unknown = set(re.findall(r"<code>([^<]*)</code>", told[1])) if told else set()
    return [name for name in sent if name not in unknown]


def notices_of(page: str) -> Counter[str]:
    """How many notices and faults of each kind stand in a page."""
    return Counter(_SAID.findall(page))


def silent_on(ask: Any, address: str, data: dict[str, str], names: list[str]) -> list[str]:
    """Parameters of a page whose nonsense it takes without a word, or that take the page away."""
    fresh = {name: NONSENSE for name in names if name not in data}
    page = ask(address, {**data, **fresh}).content.decode("utf-8", "replace")
    usual = notices_of(ask(address, data).content.decode())
    silent = []
    for name in known_of(page, fresh):
        answer = ask(address, {**data, name: NONSENSE})
        if answer.status_code == 302:
            answer = ask(answer.headers["Location"], {})
        text = answer.content.decode("utf-8", "replace")
        if answer.status_code != 200 or not notices_of(text) - usual:
            silent.append(name)
    return silent


def silent_pages(ask: Any, places: list[tuple[str, str, dict[str, str]]]) -> list[str]:
    """`route?parameter` of all that pages take without a word."""
    names, silent = parameters(), []
    for route, address, data in places:
        page = ask(address, data)
        if not page.streaming and b"<html" in page.content:
            silent += [f"{route}?{name}" for name in silent_on(ask, address, data, names)]
    return silent
