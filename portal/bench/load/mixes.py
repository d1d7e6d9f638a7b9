"""What `bench queue` plays: which jobs of which queues, when, and for how long."""

from __future__ import annotations

import random
from dataclasses import dataclass

from portal.bench.load.crew import MOST_CARDS

QUOTA = 20


@dataclass(frozen=True, slots=True)
class Kind:
    """So many jobs of each queue, one every `every_s`, of `units` for `takes_s` each.

    `members`: nodes that share the units evenly.
    """

    name: str
    count: int
    every_s: float
    takes_s: float
    units: int
    tier: str
    members: int = 1


@dataclass(frozen=True, slots=True)
class Config:
    """Cohorts of queues, each queue with a quota of QUOTA units that it lends and takes back.

    `cards`: of a unit, so that gangs can share their units. `node_cards`: of each node, of which
    a cohort has `racks` times `rack_nodes`; without racks a cohort is one large node.
    """

    cohorts: int
    queues: int
    kinds: tuple[Kind, ...]
    cards: int = 1
    node_cards: int = MOST_CARDS
    racks: int = 0
    rack_nodes: int = 0

    def cards_of_a_cohort(self) -> int:
        """All there are in its pool."""
        in_racks = self.racks * self.rack_nodes * self.node_cards
        return in_racks or self.queues * QUOTA * self.cards


CONFIGS = {
    "baseline": Config(
        5,
        6,
        (
            Kind("small", 350, 0.1, 0.2, 1, "exploratory"),
            Kind("medium", 100, 0.5, 0.5, 5, "normal"),
            Kind("large", 50, 1.2, 1.0, 20, "urgent"),
        ),
    ),
    "large": Config(
        10,
        100,
        (
            Kind("small", 35, 0.06, 0.15, 1, "exploratory"),
            Kind("medium", 11, 0.3, 0.35, 5, "normal"),
            Kind("large", 4, 0.7, 0.7, 20, "urgent"),
        ),
    ),
    # The baseline's jobs as gangs in one block of 10 racks of 64 nodes, which a member of the
    # largest fills. Every third job wants one rack, prefers one, wants to be spread evenly.
    "tas": Config(
        5,
        6,
        (
            Kind("small", 350, 0.1, 0.2, 1, "exploratory", members=2),
            Kind("medium", 100, 0.5, 0.5, 5, "normal", members=4),
            Kind("large", 50, 1.2, 1.0, 20, "urgent", members=8),
        ),
        cards=4,
        node_cards=10,
        racks=2,
        rack_nodes=64,
    ),
}
MODES = ("required", "preferred", "balanced")


@dataclass(frozen=True, slots=True)
class Order:
    """One job: when it is submitted, what it asks for, how long it takes."""

    at_s: float
    queue: int
    kind: Kind
    takes_s: float
    name: str
    mode: str = MODES[0]


def plan(config: Config, scale: float, jitter: float, seed: int) -> list[Order]:
    """All jobs in the order they are submitted."""
    dice = random.Random(seed)
    orders = []
    for queue in range(config.cohorts * config.queues):
        for kind in config.kinds:
            at_s = 0.0
            for number in range(max(1, round(kind.count * scale))):
                at_s += kind.every_s * dice.uniform(1 - jitter, 1 + jitter)
                takes_s = kind.takes_s * dice.uniform(1 - jitter, 1 + jitter)
                name, mode = f"{kind.name}-{queue}-{number}", MODES[number % len(MODES)]
                orders.append(Order(at_s, queue, kind, takes_s, name, mode))
    return sorted(orders, key=lambda order: order.at_s)
