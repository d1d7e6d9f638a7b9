"""RE2 patterns of retry rules: linear in the text, whatever the pattern is."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

# A pattern that needs a larger automaton is refused.
_MOST_MEMORY = 1 << 20


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The pattern, to be searched in single lines; None where the library is not installed, as with
    the command line alone. Raises ValueError for what is no pattern."""
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.max_mem = _MOST_MEMORY
    try:
        return re2.compile(pattern, options=options)
    except re2.error as wrong:
        reason = wrong.args[0] if wrong.args else ""
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"{pattern[:40]!r} is no pattern of RE2: {said}") from None


def is_in(pattern: str, line: str) -> bool:
    """Whether a line holds it; no line does where it cannot be asked."""
    found = compiled(pattern)
    return found is not None and found.search(line) is not None
