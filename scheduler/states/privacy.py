"""Which variables hold secrets, by their names; the one rule for logs and for what is shown."""

from __future__ import annotations

import re

MASK = "***"
_NAME = re.compile(
    r"token|secret|passw(?:or)?d|passphrase|credential|private_?key|api_?key|access_?key|"
    r"auth_?key|_pat$|_dsn$",
    re.IGNORECASE,
)
_COUNTED = "max|min|num|n|per|batch|total|new|input|output|prompt|context|special|train|eval|seq"
# A model is fed tokens, by a tokenizer. All others let somebody in, whatever they are called.
_FED = re.compile(
    rf"tokeniz|(?<![a-z])(?:{_COUNTED})_?tokens(?![a-z])|(?<![a-z])tokens_?(?:{_COUNTED})(?![a-z])|"
    r"^tokens$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name most likely holds a secret."""
    return _NAME.search(_FED.sub("", name)) is not None
