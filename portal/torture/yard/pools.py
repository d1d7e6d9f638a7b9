"""Which pools an installation has, and which of its nodes are in which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# Where jobs go that name none.
FIRST = "default"
MOST_POOLS, USUAL_POOLS = 8, 3
# A pool of one node has nobody to go on while that is hurt, and no room for gangs.
_NODES_EACH = 2


def usual_pools(agents: int) -> int:
    """How many pools so many nodes are dealt to unless somebody says otherwise: three, and fewer
    where not each but the last would have two."""
    return max(1, min(USUAL_POOLS, -(-agents // _NODES_EACH)))


def deal(agents: int, pools: int) -> dict[str, int]:
    """By pool how many of the nodes it has, the largest first; no more pools than nodes."""
    count = max(1, min(pools, agents))
    names = (FIRST, *(f"pool-{number}" for number in range(2, count + 1)))
    more = agents % count
    return {name: agents // count + (at < more) for at, name in enumerate(names)}


def closed_pool(sizes: Mapping[str, int]) -> str:
    """The one of which one project may use nothing; empty where there is no other."""
    return list(sizes)[-1] if len(sizes) > 1 else ""


def pools_in_order(sizes: Mapping[str, int]) -> Iterator[str]:
    """The pool of each node, in the order of their numbers."""
    for name, size in sizes.items():
        yield from (name for _ in range(size))
