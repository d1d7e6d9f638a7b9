"""Which moves of jobs were made beside which kinds of faults; and how jobs spread over pools."""

from __future__ import annotations

from collections import Counter
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


def figures_of_pools(evidence: Evidence, count: int) -> dict[str, int]:
    """How many pools there were, how many jobs could choose, how often one went to another pool by
    itself and how often people sent one there; how many nodes' shares of attempts were in each."""
    pools = {node["id"]: node["pool_id"] for node in evidence.rows("node")}
    names = {pool["id"]: str(pool["name"]) for pool in evidence.rows("pool")}
    ranks = Counter(names[pools[row["node_id"]]] for row in evidence.rows("placement"))
    moved = [said for said in evidence.told("moved") if said["status"] == 200]
    return {
        "count": count,
        "chose": sum(bool(job.get("pool_choice")) for job in evidence.rows("job")),
        "went": sum(one["kind"] == "moved_to_pool" for one in evidence.rows("jobevent")),
        "sent": len(moved),
        **{f"in {name}": ranks[name] for name in sorted(ranks)},
    }
