"""Thousands of jobs on a timeline: the longest one by one, the others summed as by plain loops."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from scheduler.selectors.machines.spans import MOST_SUMS, Spans, Sum, longest, summed

START = datetime(2026, 11, 20, tzinfo=UTC)
END = START + timedelta(days=7)
FIRST, LAST = int(START.timestamp()), int(END.timestamp())
TEAMS = ("", "vision", "demo-dialogue")


def made(many: int, seed: int, rows: int = 40) -> Spans:
    draw = random.Random(seed)
    begin = [draw.randrange(FIRST - 90_000, LAST) for _ in range(many)]
    is_running = [draw.random() < 0.2 for _ in range(many)]
    until = [
        0 if runs else max(since + draw.randrange(1, 200_000), FIRST + 1)
        for since, runs in zip(begin, is_running, strict=True)
    ]
    columns = {
        "row": [draw.randrange(1, rows + 1) for _ in range(many)],
        "placement": list(range(many)),
        "begin": begin,
        "until": until,
        "gpus": [draw.randrange(1, 9) for _ in range(many)],
    }
    return Spans(
        **{name: np.array(column, np.int64) for name, column in columns.items()},
        is_running=np.array(is_running),
        team=np.array([draw.choice(TEAMS) for _ in range(many)], object),
        is_first=np.array([draw.random() < 0.7 for _ in range(many)]),
    )


def one_by_one(spans: Spans) -> list[dict[str, Any]]:
    names = ("row", "begin", "until", "gpus", "team", "is_running", "is_first")
    columns = [getattr(spans, name).tolist() for name in names]
    return [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)]


def plainly(spans: Spans) -> list[Sum]:
    parts = 1024
    while True:
        found: dict[tuple[int, str, bool, int], Sum] = {}
        for one in one_by_one(spans):
            until = LAST if one["is_running"] else one["until"]
            middle = (max(one["begin"], FIRST) + min(until, LAST)) // 2
            part = (middle - FIRST) * 1024 // (LAST - FIRST) * parts // 1024
            key = (one["row"], one["team"], one["is_running"], part)
            if key not in found:
                found[key] = Sum(*key[:2], 0, 0, one["begin"], until, key[2])
            it = found[key]
            it.jobs, it.gpus = it.jobs + one["is_first"], it.gpus + one["gpus"]
            it.begin, it.until = min(it.begin, one["begin"]), max(it.until, until)
        if len(found) <= MOST_SUMS or not any(part for *_, part in found):
            return list(found.values())
        parts //= 2


def in_order(sums: list[Sum]) -> list[Sum]:
    return sorted(sums, key=lambda one: (one.row, one.team, one.is_running, one.begin, one.until))


@pytest.mark.parametrize(("many", "rows"), [(0, 1), (1, 1), (300, 3), (5000, 40), (3000, 900)])
def test_sums_are_those_of_plain_loops(many, rows):
    spans = made(many, seed=many, rows=rows)
    found = summed(spans, START, END)
    assert in_order(found) == in_order(plainly(spans))
    assert sum(one.gpus for one in found) == int(spans.gpus.sum())
    assert sum(one.jobs for one in found) == int(spans.is_first.sum())


def test_the_longest_are_those_of_which_most_is_seen():
    spans = made(800, seed=3)
    kept, others = longest(spans, 100, START, END)

    def seen(one):
        until = LAST if one["is_running"] else min(one["until"], LAST)
        return until - max(one["begin"], FIRST)

    assert (len(kept), len(others)) == (100, 700)
    assert set(kept.placement) | set(others.placement) == set(range(800))
    assert min(map(seen, one_by_one(kept))) >= max(map(seen, one_by_one(others)))
    assert [len(part) for part in longest(spans, 800, START, END)] == [800, 0]
