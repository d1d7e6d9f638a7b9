"""What ran where and when, and that it did not run at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from tests.protocol.nodes import Life


def grouped(lives: Iterable[Life], keys: Any) -> Iterable[list[Life]]:
    groups: dict[object, list[Life]] = {}
    for life in lives:
        for key in keys(life):
            groups.setdefault(key, []).append(life)
    return groups.values()


def apart(lives: list[Life]) -> None:
    """Processes of different attempts do not overlap in time."""
    spans: dict[int, tuple[float, float]] = {}
    for life in lives:
        until = float("inf") if life.until is None else life.until
        since, latest = spans.get(life.fence, (life.since, until))
        spans[life.fence] = (min(since, life.since), max(latest, until))
    for (fence, (_, until)), (other, (since, _)) in pairwise(sorted(spans.items())):
        assert until <= since, f"attempts {fence} and {other} ran at once: {lives}"
