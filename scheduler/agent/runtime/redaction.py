"""Secrets of a job's environment are taken out of its log before a byte of it is on disk.

A secret is the value of a variable whose name says so. It is looked for as it is, line by line, and
in the forms programs print it: base64 in its three alignments, hex, and escaped for URLs and JSON.
A long one is looked for in pieces, and base64 of the whole also in the lines it is broken in.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from scheduler import states
from scheduler.agent.runtime.records import LaunchRecord
from scheduler.agent.runtime.space import memory

MASK = states.MASK.encode()
# Shorter values would blacken ordinary words; they are no secrets worth the name.
SHORTEST = 6
# Characters of a piece. Whole triplets: where nothing comes before, no letter of base64 is cut.
_LONGEST = 6144
# Letters of base64 in a line: of coreutils, Python and MIME, and of OpenSSL and PEM.
_COLUMNS = (76, 64)
# What JavaScript's encodeURIComponent leaves as it is, beside letters, digits and "-_.~".
_LEFT_BY_JS = "!*'()"
_PERCENT = re.compile(rb"%[0-9A-F]{2}")
# What Go's JSON escapes beside what all do.
_ESCAPED_BY_GO = {ord(one): f"\\u{ord(one):04x}" for one in "&<>\u2028\u2029"}


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """The values of variables that are secrets by their names."""
    return [
        value
        for name, value in environment.items()
        if states.is_secret_name(name) and len(value.strip().encode()) >= SHORTEST
    ]


def secrets_of(launch: LaunchRecord) -> list[str]:
    """Every secret that a job is given: in its variables and in files."""
    environments = (launch.env, *launch.processes)
    found = [one for each in environments for one in secrets_in(each)]
    return found + memory.values_in(launch.secrets_dir)


class Redactor:
    """Takes secrets out of a stream, whatever pieces it comes in.

    Of each piece is held back only what may be the beginning of a secret that the next one ends.
    Without secrets it passes everything on at once.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        needles = {form for secret in secrets for form in _forms(secret)}
        self._needles = sorted(needles, key=lambda one: (-len(one), one))
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """What may be written now."""
        if not self._needles:
            return piece
        data = self._held + piece
        begins = self._unfinished(data)
        out, at = [], 0
        for match in self._found(data):
            if match.start() >= begins:
                break
            out += [data[at : match.start()], MASK]
            at = match.end()
        until = max(begins, at)
        self._held = data[until:]
        return b"".join((*out, data[at:until]))

    def finish(self) -> bytes:
        """What was held back: nothing follows, so it can only be whole or no secret."""
        held, self._held = self._held, b""
        out, at = [], 0
        for match in self._found(held):
            out += [held[at : match.start()], MASK]
            at = match.end()
        return b"".join((*out, held[at:]))

    def _found(self, data: bytes) -> Iterator[re.Match[bytes]]:
        """Secrets one after the other, of two that begin together the longer one.

        First each alone, which is a hundred times as fast as all at once: mostly there is none.
        """
        here = [one for one in self._needles if one in data]
        return re.finditer(b"|".join(map(re.escape, here)), data) if here else iter(())

    def _unfinished(self, data: bytes) -> int:
        """Where the longest end of `data` begins that is the beginning of a longer secret."""
        first = len(data)
        for needle in self._needles:
            at = data.find(needle[:1], max(0, len(data) - len(needle) + 1))
            while 0 <= at < first:
                if needle.startswith(data[at:]):
                    first = at
                at = data.find(needle[:1], at + 1)
        return first


def _forms(secret: str) -> set[bytes]:
    """How a secret may be written; pieces too short to tell from ordinary text are left out."""
    whole = secret.strip()
    lines = {whole, *(line.strip() for line in whole.splitlines())}
    found = _in_lines(secret) | _in_lines(whole)
    for text in {piece for line in lines for piece in _pieces(line)}:
        raw = text.encode()
        if len(raw) < SHORTEST:
            continue
        found |= {raw, raw.hex().encode(), raw.hex().upper().encode()}
        found |= _in_urls(text) | _in_json(text) | _in_base64(raw)
    return {form for form in found if len(form) >= SHORTEST}


def _pieces(text: str) -> list[str]:
    """The text in pieces that are long enough to be told from ordinary text."""
    begins = list(range(0, max(1, len(text) - SHORTEST + 1), _LONGEST))
    return [text[begin:end] for begin, end in zip(begins, [*begins[1:], None], strict=True)]


def _in_urls(text: str) -> set[bytes]:
    """As parts of addresses and of forms, by the rules of Python, Go and JavaScript."""
    ways = {quote(text, safe=kept) for kept in ("", "/", _LEFT_BY_JS)}
    ways |= {quote_plus(text), quote_plus(text, safe="*").replace("~", "%7E")}
    upper = {way.encode() for way in ways}
    return upper | {_PERCENT.sub(lambda code: code[0].lower(), way) for way in upper}


def _in_json(text: str) -> set[bytes]:
    """Between the quotes; all escaped, only what must be, and as Go does it."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    ways = (json.dumps(text)[1:-1], plain, plain.translate(_ESCAPED_BY_GO))
    return {way.encode() for way in ways}


def _in_lines(text: str) -> set[bytes]:
    """The lines of its base64 where that is broken in lines, alone and with a line's end after it.

    A last line too short to be told from ordinary text is taken with the one before.
    """
    found: set[bytes] = set()
    for raw in (text.encode(), text.encode() + b"\n"):
        coded = base64.b64encode(raw)
        for width in _COLUMNS:
            lines = [coded[at : at + width] for at in range(0, len(coded), width)]
            if len(lines) > 1:
                found.update(lines)
                found.update(end.join(lines[-2:]) for end in (b"\n", b"\r\n"))
    return found


def _in_base64(raw: bytes) -> set[bytes]:
    """The characters that only these bytes decide, at each of the three alignments."""
    found = set()
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + raw)
        # What the bytes before and after also decide is cut off.
        skipped = (0, 2, 3)[before]
        kept = len(coded.rstrip(b"=")) - ((len(raw) + before) % 3 != 0)
        part = coded[skipped:kept]
        found |= {part, part.replace(b"+", b"-").replace(b"/", b"_")}
    return found
