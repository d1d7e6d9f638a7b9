"""Which variables hold secrets, by their names; the one rule for logs and for what is shown."""

from __future__ import annotations

import re

MASK = "***"
# A model is fed tokens, by a tokenizer: many of them let somebody in only where the name says so.
_NAME = re.compile(
    r"token(?!s|iz)|(?:api|auth|access|refresh|bearer|session|bot|hub|hf|git|github)_?tokens|secret|"
    r"passw(?:or)?d|passphrase|credential|private_?key|api_?key|access_?key|"
    r"auth_?key|_pat$|_dsn$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name most likely holds a secret."""
    return _NAME.search(name) is not None
