"""Sealing events so that a change is found and named: digests, and a chain over batches of them.

Each event has a digest, SHA-256 over its canonical JSON. A seal holds the ids and digests of the
events of a range of ids, and its own hash covers them, the range and the seal before. Whoever
changes, removes or slips in an event disagrees with the digests; whoever changes the digests breaks
the chain; whoever writes the chain anew changes its last hash, which therefore belongs into other
hands: checks print it.
Pure: rows come in as values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

GENESIS = "0" * 64
_ID, _DIGEST = 8, 32
_PIECE = _ID + _DIGEST


@dataclass(frozen=True, slots=True)
class Sealing:
    """A seal: every event with `from_id` <= id <= `until_id`, `digests` as `packed` gives them."""

    number: int
    from_id: int
    until_id: int
    count: int
    digests: bytes
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Digest:
    """An event's id and the digest of everything in it."""

    id: int
    digest: bytes


def digest_of(pk: int, fields: Mapping[str, object]) -> Digest:
    """An event's digest; `fields` are what JSON can hold, times as text."""
    text = json.dumps({**fields, "id": pk}, sort_keys=True, separators=(",", ":"))
    return Digest(pk, hashlib.sha256(text.encode()).digest())


def packed(digests: Iterable[Digest]) -> bytes:
    """Eight bytes of id and 32 of digest for each event."""
    return b"".join(d.id.to_bytes(_ID, "big") + d.digest for d in digests)


def unpacked(pieces: bytes) -> Iterator[Digest]:
    """What `packed` was given; a rest that is no whole piece is left out."""
    for at in range(0, len(pieces) - len(pieces) % _PIECE, _PIECE):
        piece = pieces[at : at + _PIECE]
        yield Digest(int.from_bytes(piece[:_ID], "big"), piece[_ID:])


def seal(number: int, from_id: int, until_id: int, events: Sequence[Digest], head: str) -> Sealing:
    """The seal of these events (all there are in the range, by id) behind `head`."""
    pieces = packed(events)
    return Sealing(
        number=number,
        from_id=from_id,
        until_id=until_id,
        count=len(events),
        digests=pieces,
        previous=head,
        hash=_hash(number, from_id, until_id, len(events), pieces, head),
    )


def _hash(
    number: int, from_id: int, until_id: int, count: int, pieces: bytes, previous: str
) -> str:
    whole = hashlib.sha256(previous.encode() + b"\n")
    whole.update(f"{number} {from_id} {until_id} {count}\n".encode())
    whole.update(pieces)
    return whole.hexdigest()


def break_in_chain(found: Sealing, number: int, from_id: int, head: str) -> str:
    """What is wrong with the seal that should have this number and begin; empty: nothing."""
    if found.number != number:
        return f"seal {number} is missing"
    if found.previous != head or found.from_id != from_id:
        return f"seal {number} does not follow the one before"
    expected = _hash(
        found.number, found.from_id, found.until_id, found.count, found.digests, found.previous
    )
    if found.hash != expected or len(found.digests) != found.count * _PIECE:
        return f"seal {number} was changed after it was written"
    return ""


def break_in_events(sealed: Sealing, events: Iterable[Digest]) -> str:
    """The first event of a seal's range that is not as it was sealed; empty if all are."""
    there = iter(events)
    event = next(there, None)
    for expected in unpacked(sealed.digests):
        if event is not None and event.id < expected.id:
            return f"event {event.id} was put in after seal {sealed.number}"
        if event is None or event.id > expected.id:
            return f"event {expected.id} is missing"
        if event.digest != expected.digest:
            return f"event {event.id} was changed after it was recorded"
        event = next(there, None)
    if event is not None:
        return f"event {event.id} was put in after seal {sealed.number}"
    return ""
