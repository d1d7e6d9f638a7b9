"""Sealing values for the database: AES-256-GCM, bound to the place a value belongs to.

The key comes from Django's SECRET_KEY (HKDF, RFC 5869) and is never in the database; the place is
authenticated along, so that a row's value does not open in another row. SECRET_KEY_FALLBACKS open
what was sealed before the key was changed.
"""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

_VERSION = b"2"
# Random nonces of 96 bits are safe for 2^32 values of one key (NIST SP 800-38D, 8.3).
_NONCE, _TAG = 12, 16
_PURPOSE = b"trainyard kept secrets"


class Unsealable(Exception):
    """The value was sealed with another key, for another place, or was changed."""


def seal(value: bytes, place: str) -> bytes:
    """`value` for keeping at `place`, which must be given again to open it."""
    nonce = secrets.token_bytes(_NONCE)
    hidden = _cipher(settings.SECRET_KEY).encrypt(nonce, value, place.encode())
    return _VERSION + nonce + hidden


def unseal(sealed: bytes | memoryview, place: str) -> bytes:
    """The value; raises Unsealable."""
    sealed = bytes(sealed)  # PostgreSQL gives a view
    nonce, hidden = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
    if sealed[:1] == _VERSION and len(hidden) >= _TAG:
        for key in (settings.SECRET_KEY, *map(str, settings.SECRET_KEY_FALLBACKS)):
            try:
                return _cipher(key).decrypt(nonce, hidden, place.encode())
            except InvalidTag:
                continue
    raise Unsealable(place)


def _cipher(key: str) -> AESGCM:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key.encode())
    return AESGCM(derived)
