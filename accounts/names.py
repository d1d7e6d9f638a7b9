"""Names of teams and projects: clean, readable, and not to be confused with each other."""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 128
RESERVED_SLUGS = frozenset(
    {"new", "api", "admin", "settings", "static", "teams", "projects", "me", "all", "none"}
)
_INVISIBLE = {"Cc", "Cs", "Co", "Cn"}
# Marks on a letter and around it.
_STACKED = {"Mn", "Me"}
# Letters of other scripts that look like Latin ones; enough to keep look-alikes apart, no more.
_LOOKALIKES = str.maketrans(
    "абвгдеёзикмнорстухуіјѕԁһӏԛԝɡαβεηικνορτυχωⅼ", "a6brdeezikmhopctyxyijsdhlqwgaβenikvoptuxwl"
)
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)


def clean_name(value: str) -> str:
    """A one-line name, trimmed and in Unicode NFC; raises ValueError that says why not."""
    text = unicodedata.normalize("NFC", value).strip()
    if not text:
        raise ValueError("Give it a name.")
    if len(text) > MAX_NAME:
        raise ValueError(f"Use at most {MAX_NAME} characters.")
    marks = 0
    for char in text:
        if unicodedata.category(char) in _INVISIBLE:
            raise ValueError(f"Remove the control character U+{ord(char):04X}.")
        marks = marks + 1 if unicodedata.category(char) in _STACKED else 0
        if marks > 4:
            raise ValueError("Stack at most 4 combining marks on one letter.")
    if not any(char.isalnum() for char in confusable_key(text)):
        raise ValueError("Use at least one visible letter or digit.")
    return text


def confusable_key(name: str) -> str:
    """Equal for names that look alike: case, width, accents, invisible and foreign look-alikes."""
    text = unicodedata.normalize("NFKD", name).casefold().translate(_LOOKALIKES)
    kept = (c for c in text if unicodedata.category(c)[0] in "LN" or c in "-_.+&")
    return "".join(kept).replace("0", "o").replace("1", "l")[:256]


def slug_for(name: str) -> str:
    """A slug from a name; empty when nothing of it can be spelled in ASCII."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:63].strip("-")


def clean_slug(slug: str) -> str:
    """Raises ValueError that says why not."""
    if not _SLUG.fullmatch(slug):
        raise ValueError("Use lower-case letters, digits and dashes.")
    if slug in RESERVED_SLUGS:
        raise ValueError(f"{slug} is reserved; choose another.")
    return slug
