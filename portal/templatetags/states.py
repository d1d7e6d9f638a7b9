"""One table: how each state is shown. Word, drawn glyph and colour, never colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """Class of the pill and name of the icon that stand for a word."""

    css: str
    glyph: str


_GREY = "st-held"
_UNKNOWN = Look(_GREY, "held")

LOOKS: Mapping[str, Look] = {
    # Jobs, as scheduler.states.shown_state names them.
    "held": Look(_GREY, "held"),
    "queued": Look("st-queued", "queued"),
    "starting": Look("st-starting", "starting"),
    "running": Look("st-running", "running"),
    "stopping": Look("st-stopping", "stopping"),
    "succeeded": Look("st-succeeded", "succeeded"),
    "failed": Look("st-failed", "failed"),
    "cancelled": Look(_GREY, "cancelled"),
    "preempted": Look("st-preempted", "preempted"),
    "timed out": Look("st-timedout", "timedout"),
    "unreachable": Look("st-unreachable", "unreachable"),
    # Attempts.
    "assigned": Look("st-starting", "queued"),
    "ended": Look(_GREY, "succeeded"),
    # Nodes and devices.
    "ready": Look("st-succeeded", "succeeded"),
    "silent": Look("st-unreachable", "unreachable"),
    "draining": Look("st-stopping", "drain"),
    "drained": Look(_GREY, "drain"),
    "quarantined": Look("st-preempted", "pause"),
    "lost": Look("st-failed", "failed"),
    "retired": Look(_GREY, "cancelled"),
    "healthy": Look("st-succeeded", "succeeded"),
    "suspect": Look("st-timedout", "unreachable"),
    # Requests for quota.
    "draft": Look(_GREY, "held"),
    "submitted": Look("st-queued", "queued"),
    "lead review": Look("st-queued", "queued"),
    "admin review": Look("st-queued", "queued"),
    "finance review": Look("st-queued", "queued"),
    "needs info": Look("st-timedout", "help"),
    "approved": Look("st-succeeded", "succeeded"),
    "partly approved": Look("st-succeeded", "succeeded"),
    "denied": Look("st-failed", "failed"),
    "withdrawn": Look(_GREY, "cancelled"),
    # Cancels of many jobs that two people end.
    "waiting": Look("st-queued", "queued"),
    "agreed": Look("st-succeeded", "succeeded"),
    "refused": Look("st-failed", "failed"),
    "lapsed": Look(_GREY, "timedout"),
    # Queues, tokens, memberships.
    "open": Look("st-succeeded", "succeeded"),
    "planned": Look("st-queued", "queued"),
    "released": Look(_GREY, "back"),
    "paused": Look("st-timedout", "pause"),
    "active": Look("st-succeeded", "succeeded"),
    "invited": Look("st-queued", "queued"),
    "expired": Look(_GREY, "timedout"),
    "revoked": Look(_GREY, "cancelled"),
}


# For the title of a tab, where nothing can be drawn.
SIGNS: Mapping[str, str] = {
    "held": "◌",
    "paused": "◌",
    "queued": "◷",
    "starting": "◔",
    "running": "●",
    "stopping": "◑",
    "succeeded": "✓",
    "failed": "✕",
    "cancelled": "⊘",
    "preempted": "⇤",
    "timed out": "⌛",
    "unreachable": "⚠",
}


def look_of(word: str) -> Look:
    """How `word` is shown; a word that is not in the table is grey."""
    return LOOKS.get(word, _UNKNOWN)
