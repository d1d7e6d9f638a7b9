"""The two calls by which a node hands over the files of a job's output folder.

First the list, with sizes and digests: the server answers which bytes it still wants. Then each
wanted file in parts of OUTPUT_PART bytes, in order; the last one may be shorter. A list may be sent
again at any time, after a restart too: what the server has is not wanted again.
"""

from __future__ import annotations

from dataclasses import dataclass

OUTPUT_PART = 1024 * 1024
MAX_OUTPUTS = 1000
MAX_OUTPUT_NAME = 512
MAX_OUTPUT_BYTES = 16 * 1024**3


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """A plain file: its `name` from the folder down, bytes and SHA-256 (`digest`, hex)."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class OutputRefusal:
    """Something in the folder that is not handed over, and why; `name` is made fit to be shown."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class OutputList:
    """All that lies in a rank's output folder at the end of an attempt."""

    entries: tuple[OutputEntry, ...] = ()
    refused: tuple[OutputRefusal, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputWish:
    """The server wants this file's bytes from `offset` on; `number` names it in the next calls."""

    number: int
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """What the server wants of a list; nothing: it has all it takes."""

    wanted: tuple[OutputWish, ...] = ()


def problem_of_name(name: str) -> str:
    """Why a name cannot be kept; empty for a good one. Both sides ask, neither trusts the other."""
    parts = name.split("/")
    if not name or len(name) > MAX_OUTPUT_NAME:
        return f"its name is empty or longer than {MAX_OUTPUT_NAME} characters"
    if not name.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in name):
        return "its name has characters that cannot be shown; rename it"
    if "\\" in name or any(part in ("", ".", "..") for part in parts):
        return "its name leads out of the folder or has a backslash; rename it"
    return ""
