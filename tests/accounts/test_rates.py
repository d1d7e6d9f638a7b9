"""What a GPU-hour costs, from when on."""

from __future__ import annotations

from decimal import Decimal

import pytest

from accounts.errors import Forbidden, Invalid
from accounts.models import Rate
from accounts.selectors import current_rates, rate_at, rates_over
from accounts.services import set_rate
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db


def _set(root, model, price, second=0.0, **more):
    return set_rate(
        actor=root,
        device_model=model,
        price_per_gpu_hour=Decimal(price),
        valid_from=at(second),
        **more,
    )


def test_the_latest_price_at_a_moment_else_the_fallback(root):
    _set(root, "H100", "3.60", 0)
    _set(root, "H100", "4.00", 100)
    _set(root, "", "1.00", 50)
    prices = [rate_at("H100", at(s)) for s in (-1, 0, 99, 100, 10_000)]
    assert [p and p.price_per_gpu_hour for p in prices] == [
        None,
        Decimal("3.60"),
        Decimal("3.60"),
        Decimal("4.00"),
        Decimal("4.00"),
    ]
    assert rate_at("A100", at(49)) is None
    assert rate_at("A100", at(50)).price_per_gpu_hour == Decimal("1.00")
    assert [r.price_per_gpu_hour for r in current_rates(now=at(60))] == [
        Decimal("1.00"),
        Decimal("3.60"),
    ]


def test_many_look_ups_are_one_query(root, django_assert_num_queries):
    for number in range(5):
        _set(root, f"M{number}", str(number))
    with django_assert_num_queries(1):
        table = rates_over(f"M{n}" for n in range(5))
        assert [table.at(f"M{n}", NOON).price_per_gpu_hour for n in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("who", ["alice", "lead", "finance", "operator"])
def test_only_administrators_set_prices(request, who):
    with pytest.raises(Forbidden):
        _set(request.getfixturevalue(who), "H100", "1")
    assert not Rate.objects.exists()


@pytest.mark.parametrize("price", ["-0.01", "NaN", "Infinity", "100001", "1.00001", "1e-20"])
def test_prices_that_make_no_sense(root, price):
    with pytest.raises(Invalid) as refused:
        _set(root, "H100", price)
    assert refused.value.field == "price_per_gpu_hour"


@pytest.mark.parametrize("currency", ["", "eur", "EURO", "€", "E1R"])
def test_currencies_are_three_letters(root, currency):
    with pytest.raises(Invalid) as refused:
        _set(root, "H100", "1", currency=currency)
    assert refused.value.field == "currency"


@pytest.mark.parametrize("model", ["a\x00b", "x" * 97, "a\nb"])
def test_models_are_one_short_line(root, model):
    with pytest.raises(Invalid) as refused:
        _set(root, model, "1")
    assert refused.value.field == "device_model"


def test_one_price_for_a_moment(root):
    _set(root, "H100", "1")
    with pytest.raises(Invalid) as refused:
        _set(root, "H100", "2")
    assert refused.value.field == "valid_from"
    assert Rate.objects.get().price_per_gpu_hour == 1
