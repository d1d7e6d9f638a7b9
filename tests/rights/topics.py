"""Which topics of the socket each kind of people may watch."""

from __future__ import annotations

from typing import Final

# Of the socket: member lead above finance operator admin auditor service.
TOPICS: Final[dict[str, tuple[str, str]]] = {
    "job": ("yes yes yes yes yes yes yes yes", "no no no yes yes yes yes no"),
    "project": ("yes yes yes yes no yes yes yes", "no no no yes no yes yes no"),
    "log": ("yes yes yes no no yes no yes", "no no no no no yes no no"),
    "user": ("yes no no no no no no no", "no no no no no no no no"),
    "queue": ("yes yes yes yes yes yes yes yes", "yes yes yes yes yes yes yes yes"),
    "node": ("yes yes yes yes yes yes yes yes", "yes yes yes yes yes yes yes yes"),
    "nodes": ("yes yes yes yes yes yes yes yes", "yes yes yes yes yes yes yes yes"),
}
