"""Sealing values for the database, with the standard library alone.

Encrypt-then-MAC over a key stream of a pseudo-random function in counter mode: HMAC-SHA256(key,
counter), a fresh random nonce for every sealing and keys of their own for stream and tag (NIST SP
800-108 for keys from a key; Bellare, Namprempre 2000 for the order). The tag covers the place the
value belongs to, so that a row's value does not open in another row.

The key comes from Django's SECRET_KEY and is never in the database. SECRET_KEY_FALLBACKS open what
was sealed before the key was changed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from django.conf import settings

_VERSION = b"1"
_NONCE, _TAG, _BLOCK = 16, 32, 32
_PURPOSE = b"trainyard kept secrets 1"


class Unsealable(Exception):
    """The value was sealed with another key, for another place, or was changed."""


def seal(value: bytes, place: str) -> bytes:
    """`value` for keeping at `place`, which must be given again to open it."""
    nonce = secrets.token_bytes(_NONCE)
    stream, tag = _keys(settings.SECRET_KEY, nonce)
    hidden = _mixed(value, stream)
    return _VERSION + nonce + hidden + _tag(tag, place, nonce, hidden)


def unseal(sealed: bytes | memoryview, place: str) -> bytes:
    """The value; raises Unsealable."""
    sealed = bytes(sealed)  # PostgreSQL gives a view
    nonce, hidden, found = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE : -_TAG], sealed[-_TAG:]
    if sealed[:1] == _VERSION and len(sealed) > _NONCE + _TAG:
        for key in (settings.SECRET_KEY, *map(str, settings.SECRET_KEY_FALLBACKS)):
            stream, tag = _keys(key, nonce)
            if hmac.compare_digest(found, _tag(tag, place, nonce, hidden)):
                return _mixed(hidden, stream)
    raise Unsealable(place)


def _keys(key: str, nonce: bytes) -> tuple[bytes, bytes]:
    root = hmac.digest(key.encode(), _PURPOSE, "sha256")
    stream = hmac.digest(root, b"stream" + nonce, "sha256")
    return stream, hmac.digest(root, b"tag" + nonce, "sha256")


def _mixed(data: bytes, key: bytes) -> bytes:
    blocks = -(-len(data) // _BLOCK)
    stream = b"".join(
        hmac.digest(key, counter.to_bytes(8, "big"), "sha256") for counter in range(blocks)
    )
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))


def _tag(key: bytes, place: str, nonce: bytes, hidden: bytes) -> bytes:
    where = place.encode()
    framed = len(where).to_bytes(4, "big") + where + nonce + hidden
    return hmac.new(key, framed, hashlib.sha256).digest()
