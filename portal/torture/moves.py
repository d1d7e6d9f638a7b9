"""Which moves of jobs were made while which kinds of faults were at work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from portal.torture.history import Evidence
from scheduler.states import JOB_MOVES

# What a fault has disturbed comes about within a moment of its end.
_AFTERWARDS_S = 2.0
ENOUGH = 3


def moves_beside_faults(evidence: Evidence) -> dict[str, set[str]]:
    """Of each legal move, as `queued to starting`, the kinds of faults it was made beside."""
    found: dict[str, set[str]] = {
        f"{was} to {now}": set() for was, nexts in JOB_MOVES.items() for now in nexts
    }
    faults = [
        (fault["at"], (fault.get("until") or fault["at"]) + _AFTERWARDS_S, fault["name"])
        for fault in evidence.told("fault")
    ]
    for move, at in _moves(evidence):
        if move in found:
            found[move] |= {name for since, until, name in faults if since <= at <= until}
    return found


def _moves(evidence: Evidence) -> Iterator[tuple[str, float]]:
    for event in evidence.rows("jobevent"):
        if event["from_state"] and event["to_state"] and event["from_state"] != event["to_state"]:
            yield f"{event['from_state']} to {event['to_state']}", evidence.real(event["at"])


def figures_of_moves(evidence: Evidence) -> dict[str, Any]:
    """How many kinds of faults each move was made beside, and which moves beside too few."""
    counts = {move: len(kinds) for move, kinds in sorted(moves_beside_faults(evidence).items())}
    seldom = [move for move, count in counts.items() if count < ENOUGH]
    return {"moves": counts, "moves_seldom": seldom}
