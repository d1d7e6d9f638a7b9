"""The language of filters: `state:queued,running gpus:>=8 label:exp=llm3 some words`. Pure.

A filter is words. `key:value` is a term, anything else text that is looked for in names. Quotes
keep blanks, colons and quotes in a value (`label:note="two words"`, `"state:held"` as text); inside
them a backslash keeps a quote or another backslash. Every term may stand once; commas join several
values of it.
`parse` reads, `write` prints, and `parse(write(filter))` is the filter again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 512
# Of this many words every one can be shown as a chip.
MAX_TERMS = 24
_KEY = re.compile(r"[a-z][a-z_]{0,31}", re.ASCII)
_PLAIN = re.compile(r'[^\s"\\]+')


class FilterError(ValueError):
    """A filter that cannot be read; the words name the term and the remedy."""


@dataclass(frozen=True, slots=True)
class Term:
    """`key:value`; a `key` of "" is text."""

    key: str
    value: str

    def __str__(self) -> str:
        if not self.key:
            is_safe = _PLAIN.fullmatch(self.value) and not _looks_like_a_term(self.value)
            return self.value if is_safe else _quoted(self.value)
        value = self.value if _PLAIN.fullmatch(self.value) else _quoted(self.value)
        return f"{self.key}:{value}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms in the order they were written."""

    terms: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def value(self, key: str) -> str:
        """The value of a term, empty without it."""
        return next((term.value for term in self.terms if term.key == key), "")

    @property
    def text(self) -> str:
        """The words that are no terms."""
        return " ".join(term.value for term in self.terms if not term.key)

    def without(self, left_out: Term) -> Filter:
        """The same without this term."""
        return Filter(tuple(term for term in self.terms if term is not left_out))


def write(found: Filter) -> str:
    """The filter as people type it."""
    return " ".join(str(term) for term in found.terms)


def parse(text: str) -> Filter:
    """Raises FilterError where the text is too long, has control characters or an open quote."""
    if len(text) > MAX_CHARS:
        raise FilterError(f"The filter is longer than {MAX_CHARS} characters; shorten it.")
    if any(ord(char) < 32 and char not in "\t\r\n" for char in text):
        raise FilterError("The filter holds control characters; remove them.")
    terms: list[Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        key, start = _key_at(text, at)
        value, at = _value_at(text, start)
        if value or key:
            terms.append(Term(key, value))
    if len(terms) > MAX_TERMS:
        raise FilterError(f"The filter has more than {MAX_TERMS} words; use fewer.")
    return Filter(tuple(terms))


def _looks_like_a_term(word: str) -> bool:
    key, colon, _ = word.partition(":")
    return bool(colon and _KEY.fullmatch(key))


def _key_at(text: str, at: int) -> tuple[str, int]:
    match = _KEY.match(text, at)
    if match and text[match.end() : match.end() + 1] == ":":
        return match[0], match.end() + 1
    return "", at


def _value_at(text: str, at: int) -> tuple[str, int]:
    """The value that begins here and where it ends; quotes may stand anywhere in it."""
    found: list[str] = []
    is_quoted = False
    while at < len(text) and (is_quoted or not text[at].isspace()):
        char = text[at]
        if char == "\\" and is_quoted and text[at + 1 : at + 2] in ("\\", '"'):
            at += 1
            found.append(text[at])
        elif char == '"':
            is_quoted = not is_quoted
        else:
            found.append(char)
        at += 1
    if is_quoted:
        begun = "".join(found)[:40]
        raise FilterError(f'A quote is open from {begun!r} on; close it with ".')
    return "".join(found), at


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
