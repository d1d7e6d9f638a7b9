"""What a rest of a shared device is worth, against cases one can work out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.packing.share_value import (
    cutting_prices,
    expected_fill,
    knapsack,
    share_values,
)
from scheduler.engine.snapshot import floats, ints

SIZES = st.lists(st.integers(1, 99).map(lambda n: n * 10), min_size=1, max_size=8, unique=True)


def test_halves_are_worth_half_a_device() -> None:
    assert cutting_prices(ints([500]), floats([1.0])).tolist() == [0.5]
    values = share_values(ints([500]), ints([7]))
    assert [values[s] for s in (0, 499, 500, 999, 1000)] == [0, 0, 500, 500, 1000]


def test_what_a_large_share_leaves_is_worth_nothing_if_small_ones_have_better_places() -> None:
    # Six shares of 160 fill a device; the 190 beside an 810 holds one of them for nothing.
    prices = cutting_prices(ints([160, 810]), floats([0.1, 0.9]))
    assert prices == pytest.approx([0, 1])
    # Now the small ones are many: a device holds six of them, so each costs a sixth.
    prices = cutting_prices(ints([160, 810]), floats([0.9, 0.1]))
    assert prices == pytest.approx([1 / 6, 5 / 6])


def test_random_arrivals_fill_a_rest_until_none_fits() -> None:
    fill = expected_fill(ints([300, 600]), floats([0.5, 0.5]))
    assert fill[299] == 0
    assert fill[300] == 300
    # A 600 ends it; a 300 lets another one in.
    assert fill[600] == pytest.approx((600 + 300 + 300) / 2)
    assert fill[900] == pytest.approx(((600 + 300) + (300 + fill[600])) / 2)


def test_without_shares_every_rest_is_worth_itself() -> None:
    assert (share_values(ints([]), ints([])) == np.arange(1001)).all()


@given(SIZES, st.data())
def test_prices_are_the_dual_of_the_cut(sizes: list[int], data: st.DataObject) -> None:
    size = ints(sizes)
    count = ints([data.draw(st.integers(1, 50)) for _ in sizes])
    prices = cutting_prices(size, floats(count / count.sum()))
    # Feasible: no way of cutting one device earns more than the device costs.
    assert knapsack(size, prices)[1000] <= 1 + 1e-6
    assert (prices >= -1e-9).all()
    # As good as any bound one knows: size alone, and shares of which two never fit together.
    asked = count / count.sum()
    assert prices @ asked >= (size * asked).sum() / 1000 - 1e-6
    assert prices @ asked >= asked[size > 500].sum() - 1e-6


@given(SIZES)
def test_values_never_exceed_a_device_and_fills_never_exceed_the_rest(sizes: list[int]) -> None:
    values = share_values(ints(sizes), ints([1] * len(sizes)))
    fill = expected_fill(ints(sizes), floats([1 / len(sizes)] * len(sizes)))
    assert (values >= 0).all() and (values <= 1000 + 1e-6).all()
    assert (fill <= np.arange(1001) + 1e-9).all()
