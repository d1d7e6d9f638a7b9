"""How secrets are stored: never, only their digest."""

from __future__ import annotations

import hashlib


def hash_secret(secret: str) -> str:
    """SHA-256 of a random secret; enough, because nobody chooses these themselves."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
