"""Values that make no sense, or that name what is another team's, for every parameter of a page.

What a page knows is found by asking: parameters come from the sources, and those that it does not
know it names itself. So a new page, or a new parameter, is asked as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from tests.pages import silent
from tests.rights.scene import PEOPLE, Side

Ask = Callable[[str, Any], Any]
# No parameter takes these; a text to look for may be anything.
ODD = {
    "huge": "9" * 30,
    "long": "x" * 4000,
    "bytes": b"\xff\xfe\xed\xa0\x80",
}
_MAIN = re.compile(r"<main.*</main>", re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden"[^>]*>')
# Parts of forms that are filled in from the address, keys that are made anew, and figures.
_KEYS = re.compile(r"\b[0-9a-f]{32}\b|[0-9]+")


# Who sees a team alone, before those who see all.
WHO = ("member", "lead", "finance", "operator", "admin")
NARROW = ("member", "lead")


def who_opens(cells: str) -> str | None:
    """The first of them who gets something, by a row of the table of rights."""
    statuses = dict(zip(PEOPLE, cells.split(), strict=True))
    return next((one for one in WHO if statuses[one] == "200"), None)


def foreign_words(side: Side) -> Iterator[tuple[str, str]]:
    """Words that name something of that side, each beside one of its shape that names nothing."""
    for word in ("team", "somebody", "template"):
        name = str(side.words[word])
        yield name, "q" * len(name)
    path = side.project.path
    yield path, re.sub("[a-z]", "q", path)
    yield str(side.words["running"]), "97"


def known_by(ask: Ask, address: str, data: dict[str, str]) -> list[str]:
    """The parameters that a page takes, those that take any text left out."""
    names = [name for name in silent.parameters() if name not in data]
    return silent.known_of(text_of(ask(address, {**data, **dict.fromkeys(names, "zz;")})), names)


def text_of(page: Any) -> str:
    """The page's HTML, empty for what is none."""
    return "" if page.streaming else page.content.decode("utf-8", "replace")


def told_of(ask: Ask, address: str, query: Any) -> tuple[int, str, Counter[str]]:
    """Status, what stands in the page, and its notices by kind; of the page that it leads to."""
    answer = ask(address, query)
    if answer.status_code == 302:
        answer = ask(answer.headers["Location"], {})
    text = text_of(answer)
    return answer.status_code, shape_of(text), silent.notices_of(text)


def shape_of(text: str) -> str:
    """What stands in a page without figures, which pass with time."""
    main = _MAIN.search(text)
    return _KEYS.sub("0", _HIDDEN.sub("", main[0] if main else text))


def without(text: str, value: str) -> str:
    """A page's shape without a value that was sent, so that pages of two values can be compared."""
    for written in (value, quote(value, safe="")):
        text = text.replace(_KEYS.sub("0", written), "VALUE")
    return text
