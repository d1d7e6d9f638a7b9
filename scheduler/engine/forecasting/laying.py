"""Jobs put into their lines one after the other, as far as their accounts may."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

from scheduler.engine.forecasting.allowances import Allowance, Supply, Terms
from scheduler.engine.forecasting.line import Kept, Line
from scheduler.engine.snapshot import NONE

# Nodes, devices on each, those of a last smaller share, for how long, for how long at most, which
# row of `from_s`, which line, and what has to be free of limits.
Asked: TypeAlias = tuple[int, int, int, float, float, int, int, Terms]
# Of a pool: nodes and devices, and by those when each is free, as bytes.
Free: TypeAlias = tuple[tuple[int, ...], bytes]
# Begins and ends of the spans in which nodes are kept from a job, as bytes.
Spans: TypeAlias = tuple[bytes, bytes]
# Starts; by line and by supply what is left for those behind.
LaidOut: TypeAlias = tuple[tuple[float, ...], tuple[Supply, ...], tuple[Supply, ...]]


@lru_cache(maxsize=16)
def lay_out(
    lines: tuple[Free, ...],
    from_s: tuple[bytes, ...],
    spans: tuple[Spans, ...],
    supplies: tuple[Supply, ...],
    asked: tuple[Asked, ...],
) -> LaidOut:
    """Put jobs into their lines in turn; infinite for never. Arrays come as their bytes.

    Whoever asks what would help a job decides many times, and mostly the line is the same again.
    """
    laid = [Line(np.frombuffer(free_s).reshape(shape)) for shape, free_s in lines]
    sizes = [shape[0] for shape, _ in lines]
    allowed = [np.frombuffer(row) for row in from_s]
    limits = [Allowance(supply) for supply in supplies]
    kept: dict[int, Kept] = {}
    starts_s = []
    for nodes, gpus, part_gpus, run_s, stay_s, which, at, terms in asked:
        may_s = _allowed_s(limits, terms)
        if which == NONE or may_s == np.inf:
            starts_s.append(np.inf)
            continue
        if which not in kept:
            tables = (np.frombuffer(one).reshape(-1, sizes[at]) for one in spans[which])
            kept[which] = Kept(*tables)
        ready_s = np.maximum(allowed[which], may_s) if terms else allowed[which]
        where = ready_s, kept[which], stay_s
        start_s = laid[at].take(nodes, gpus, run_s, *where)
        if part_gpus:
            start_s = max(start_s, laid[at].take(1, part_gpus, run_s, *where))
        starts_s.append(start_s)
        if start_s < np.inf:
            for row, need in dict.fromkeys(term for each in terms for term in each):
                limits[row].take(need, start_s, start_s + run_s)
    return (
        tuple(starts_s),
        tuple(line.left() for line in laid),
        tuple(limit.left() for limit in limits),
    )


def _allowed_s(limits: list[Allowance], terms: Terms) -> float:
    """From when on all terms hold; before all times where there are none."""
    return max(
        (min((limits[row].ready_s(need) for row, need in each), default=np.inf) for each in terms),
        default=-np.inf,
    )
