"""Where nodes stand and what they have: racks and blocks as numbers, labels as masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from scheduler.engine.snapshot import NONE
from scheduler.loop.loading.columns import Columns

# By node row.
Labels: TypeAlias = Sequence[Mapping[str, str]]


def labels_of(nodes: Columns) -> Labels:
    """Each node's own labels, and its name, block and rack under these words."""
    rows = zip(nodes["labels"], nodes["name"], nodes["block"], nodes["rack"], strict=True)
    return [
        {**labels, "node": name, "block": block, "rack": rack} for labels, name, block, rack in rows
    ]


def as_mask(
    labels: Labels, names: Sequence[str], constraints: Sequence[str], excluded: Sequence[str]
) -> list[bool]:
    """By node row whether all `label=value` and `label!=value` hold and it is not excluded.

    A node without the label differs from every value.
    """
    wanted = [_parts(constraint) for constraint in constraints]
    return [
        name not in excluded
        and all((here.get(label, "") == value) == is_equal for label, value, is_equal in wanted)
        for name, here in zip(names, labels, strict=True)
    ]


def mask_words(constraints: Sequence[str], excluded: Sequence[str]) -> str:
    """Such as "network=ib and not on n3"."""
    words = " and ".join(constraints)
    if excluded:
        named = ", ".join(excluded[:3]) + (" and others" if len(excluded) > 3 else "")
        words += f"{' and ' if words else ''}not on {named}"
    return words


def _parts(constraint: str) -> tuple[str, str, bool]:
    label, _, value = constraint.partition("=")
    return label.removesuffix("!"), value, not label.endswith("!")


def places_of(nodes: Columns) -> tuple[list[int], list[int]]:
    """Rack and block of each node as numbers; a rack's name counts within its block."""
    racks: dict[tuple[str, str], int] = {}
    blocks: dict[str, int] = {}
    pairs = list(zip(nodes["block"], nodes["rack"], strict=True))
    return (
        [racks.setdefault(pair, len(racks)) if pair[1] else NONE for pair in pairs],
        [blocks.setdefault(block, len(blocks)) if block else NONE for block, _ in pairs],
    )
