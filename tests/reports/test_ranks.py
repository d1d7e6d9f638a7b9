"""GPUs of a job beside each other: which one lags, which are shown of many, what is not known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from portal.reports.gpus.ranks import A_ROW, MOST_SHOWN, ranks_of
from scheduler.selectors.telemetry import DeviceSeries

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def gpu(rank, values, *, node="n1", every_s=60):
    at = [NOON + timedelta(seconds=every_s * number) for number in range(len(values))]
    return DeviceSeries(f"u{rank}", rank % 8, node, rank, "", 0, False, at, list(values))


def test_the_one_that_does_a_tenth_less_than_the_others_lags():
    found = ranks_of([gpu(n, [83.0 if n == 3 else 96.0] * 24) for n in range(8)])
    assert found is not None and found.median == 96.0
    assert [one.name for one in found.lagging] == ["rank 3 · n1 GPU 3"]
    assert [one.lags for _, cells in found.rows for one in cells].count(True) == 1


def test_lately_counts_and_not_what_was_once():
    slow_once = [10.0] * 18 + [96.0] * 6
    found = ranks_of([gpu(n, slow_once if n == 1 else [96.0] * 24) for n in range(4)])
    assert found is not None and found.lagging == []


def test_where_all_do_little_or_few_are_compared_none_lags():
    idle = ranks_of([gpu(n, [1.0 if n else 9.0] * 12) for n in range(8)])
    pair = ranks_of([gpu(0, [10.0] * 12), gpu(1, [90.0] * 12)])
    assert idle is not None and idle.lagging == [] and not idle.is_compared
    assert pair is not None and pair.lagging == [] and pair.count == 2


def test_one_gpu_and_no_readings_make_no_picture():
    assert ranks_of([gpu(0, [50.0] * 9)]) is None
    assert ranks_of([gpu(0, []), gpu(1, [])]) is None


def test_what_is_not_told_is_a_gap_and_no_figure():
    broken = [50.0] * 6 + [None] * 12 + [50.0] * 6
    found = ranks_of([gpu(0, broken), gpu(1, [None] * 24)])
    assert found is not None
    [(_, [first, silent])] = found.rows
    assert first.picture.count("M") == 2 and first.use == 50.0
    assert silent.use is None and 'd=""' in silent.picture and not silent.lags


def test_of_very_many_those_that_do_least_are_shown_by_rank():
    many = [gpu(n, [50.0 + n % 50] * 12, node=f"n{n // 8:03}") for n in range(512)]
    found = ranks_of(many)
    assert found is not None and (found.shown, found.count) == (MOST_SHOWN, 512)
    names = [one.name for _, cells in found.rows for one in cells]
    ranks = [int(name.split()[1]) for name in names]
    assert ranks == sorted(ranks) and len(ranks) == MOST_SHOWN
    assert max(one.use or 0 for _, cells in found.rows for one in cells) <= 57
    assert all(len(cells) <= A_ROW for _, cells in found.rows)


def test_a_use_beyond_a_hundred_stays_in_its_picture():
    found = ranks_of([gpu(n, [400.0] * 12) for n in range(2)])
    assert found is not None
    assert "-" not in found.rows[0][1][0].picture.partition('d="')[2].partition('"')[0]
