"""How far a node keeps jobs apart from each other and from itself."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """From the weakest to the strongest; each includes the one before."""

    NONE = "none"
    USER = "user"
    SANDBOX = "sandbox"


ISOLATION_WORDS = {
    Isolation.NONE: "jobs are the agent's own user",
    Isolation.USER: "every attempt is a user of its own",
    Isolation.SANDBOX: "every attempt is a user of its own in namespaces of its own",
}


def is_enough(kept: str, wanted: str) -> bool:
    """Whether keeping jobs apart as `kept` does for who wants `wanted`; empty: not known."""
    order = ["", *Isolation]
    return order.index(kept if kept in order else "") >= order.index(wanted or "")
