"""Words of the code on a page: names with underscores, codes of choices, what Python prints."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# Where the code's own words, or somebody's own text, are meant to stand.
_QUOTED = frozenset(
    {"bdi", "code", "del", "ins", "kbd", "pre", "samp", "script", "style", "textarea"}
)
_QUOTED_CLASSES = frozenset({"code", "id", "ln", "mono"})
_SPOKEN = frozenset({"alt", "aria-label", "placeholder", "title"})
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "use", "wbr"})
_RAW = re.compile(
    r"\b[a-z]+(?:_[a-z0-9]+)+\b"  # hard_stop
    r"|\b(?:p50|p90|SKU|run-guaranteed)\b"
    r"|\b(?:las|fifo|fgd|run-borrowed|reserved-idle|idle-share|platform-share)\b"
    r"|\b[A-Z][A-Za-z]+(?:State|Reason|Kind|Step)\.[A-Z_]+\b"
)
_PRINTED = frozenset({"None", "True", "False", "[]", "{}"})


class _Texts(HTMLParser):
    """What people read, or hear, of a page, but for what it quotes."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = set((given.get("class") or "").split())
        is_quoted = tag in _QUOTED or bool(classes & _QUOTED_CLASSES) or self._is_quoted()
        if not is_quoted:
            self.texts += [given[name] or "" for name in _SPOKEN & given.keys()]
        if tag not in _VOID:
            self._open.append((tag, is_quoted))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not self._is_quoted():
            self.texts.append(data.strip())

    def _is_quoted(self) -> bool:
        return bool(self._open) and self._open[-1][1]


def raw_words(html: str) -> list[str]:
    """In the order of the page, each once."""
    reader = _Texts()
    reader.feed(html)
    found = [word for text in reader.texts for word in _RAW.findall(text)]
    return list(dict.fromkeys([*found, *(one for one in reader.texts if one in _PRINTED)]))
