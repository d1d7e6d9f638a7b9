"""F8, F9, F28: shares add up to what was shared, cents to what is billed."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.bills import draw_bills, rounding_entries
from scheduler.ledger.closing import Posting
from scheduler.ledger.costs.recovery import Recovery, to_recover
from scheduler.ledger.currencies import (
    EXPONENTS,
    UnknownCurrency,
    exponent_of,
    from_minor,
    minor_units,
)
from scheduler.ledger.entries import RECOVERY, Entry, EntryKind, posting, seal
from scheduler.ledger.exact import total
from scheduler.ledger.findings import Trouble
from scheduler.ledger.shares import (
    UNASSIGNED,
    IdlePolicy,
    Weights,
    largest_remainder,
    ratios,
    share_out,
    spread,
)

NAMES = st.text("abcdef:/12", min_size=1, max_size=8)
WEIGHTS = st.dictionaries(NAMES, st.one_of(st.just(0), st.integers(0, 10**12)), max_size=12)
MONEY = st.decimals(-(10**9), 10**9, places=15)


@given(st.integers(-(10**12), 10**12), WEIGHTS.filter(lambda w: any(w.values())))
def test_parts_add_up_and_are_within_one_of_the_quota(pool, weights):
    parts = largest_remainder(pool, weights)
    assert sum(parts.values()) == pool
    whole = sum(weights.values())
    for name, weight in weights.items():
        assert abs(parts[name] * whole - pool * weight) < whole
        assert weight or not parts[name]


@given(st.integers(0, 10**9), WEIGHTS.filter(lambda w: any(w.values())), st.randoms())
def test_the_order_of_accounts_does_not_matter(pool, weights, chance):
    shuffled = list(weights.items())
    chance.shuffle(shuffled)
    assert largest_remainder(pool, dict(shuffled)) == largest_remainder(pool, weights)


def test_ties_go_to_the_smaller_name():
    assert largest_remainder(2, {"c": 1, "a": 1, "b": 1}) == {"a": 1, "b": 1, "c": 0}


@given(st.integers(0, 10**9), WEIGHTS, WEIGHTS, st.sampled_from(IdlePolicy), st.integers(0, 100))
def test_every_policy_shares_all_or_nothing(pool, used, guaranteed, policy, percent):
    shares, findings = share_out(
        pool, policy, Weights(used, guaranteed), subject="p", guarantee_percent=percent
    )
    assert sum(shares.values()) == (0 if policy is IdlePolicy.NONE else pool)
    assert bool(shares.get(UNASSIGNED)) == bool(findings)
    assert all(finding.trouble is Trouble.NO_WEIGHTS for finding in findings)


def test_nobody_to_charge_is_said_and_nothing_vanishes():
    shares, findings = share_out(
        77, IdlePolicy.BY_USE, Weights({"a": 0}, {"a": 5}), subject="pool x"
    )
    assert shares == {UNASSIGNED: 77}
    assert "77 s" in findings[0].words


def test_a_hybrid_is_its_two_halves():
    weights = Weights({"a": 3, "b": 1}, {"b": 1})
    shares, _ = share_out(100, IdlePolicy.HYBRID, weights, subject="p", guarantee_percent=60)
    assert shares == {"a": 30, "b": 70}


@given(WEIGHTS.filter(lambda w: any(w.values())))
def test_ratios_add_up_to_one(weights):
    assert sum(ratios(weights).values()) == 1


@given(st.dictionaries(NAMES, MONEY, min_size=1), st.sampled_from([0, 2, 3]))
def test_cents_add_up_and_each_is_less_than_one_off(amounts, exponent):
    code = {0: "JPY", 2: "EUR", 3: "KWD"}[exponent]
    control = minor_units(total(amounts.values()), code)
    parts = spread(control, amounts, exponent)
    assert sum(parts.values()) == control
    for name, amount in amounts.items():
        assert abs(from_minor(parts[name], code) - amount) < from_minor(1, code)


def test_units_that_are_no_rounded_sum_are_refused():
    with pytest.raises(ValueError, match="rounded sum"):
        spread(12, {"a": Decimal("0.10")}, 2)


def entry(account: str, amount: Decimal) -> Entry:
    return posting(
        Entry("b", EntryKind.USAGE, "2026-11", "2026-11", account, RECOVERY, amount, "EUR")
    )


def test_bills_add_up_to_the_control_total_whatever_the_entries():
    """F9: job cents = line = statement = control total; also with credits, in whatever order."""
    for seed in range(1_000):
        check_bills(seed)


@pytest.mark.long
def test_bills_and_shares_add_up_ten_thousand_times():
    for seed in range(10_000):
        check_bills(seed)
        check_shares(seed)


def check_bills(seed: int) -> None:
    chance = random.Random(seed)
    entries = [
        entry(
            f"team:{chance.randrange(4)}/project:{chance.randrange(9)}",
            Decimal(chance.randrange(-(10**17), 10**18)).scaleb(-15),
        )
        for _ in range(chance.randrange(1, 16))
    ]
    sealed = [one.entry for one in seal(entries)]
    control, bills = draw_bills(sealed, "EUR")
    assert sum(bill.units for bill in bills) == control
    other, mixed = draw_bills(chance.sample(sealed, len(sealed)), "EUR")
    cents = {bill.account: (bill.units, dict(bill.parts)) for bill in bills}
    assert (other, cents) == (control, {b.account: (b.units, dict(b.parts)) for b in mixed})
    for bill in bills:
        assert sum(bill.parts.values()) == bill.units
        assert abs(bill.rounding) < Decimal("0.01")
        assert bill.exact + bill.rounding == from_minor(bill.units, "EUR")
    where = Posting("b", "2026-11", "2026-11", "x")
    rounded = [*sealed, *(rounding_entries(bills, "EUR", where))]
    again, whole = draw_bills([one.entry for one in seal(rounded)], "EUR")
    assert again == control
    assert all(bill.rounding == 0 for bill in whole)


def test_a_thousand_pools_are_shared_out_whole():
    """F8: seconds by every policy, ratios, and the money of a pool that is paid by cost."""
    for seed in range(1_000):
        check_shares(seed)


def check_shares(seed: int) -> None:
    """Weights of nobody, of nothing, of one, equal and huge; charged more and less than it cost."""
    chance = random.Random(seed)
    names = [f"team:{n}/project:{n}" for n in range(chance.randrange(9))]
    sizes = chance.choice(((0,), (1,), (0, 1, 7), (3_600, 10**12), range(10**6)))
    used = {name: chance.choice(sizes) for name in names}
    guaranteed = {name: chance.randrange(3) for name in names if chance.random() < 0.5}
    pool, percent = chance.choice((0, 1, 59, 10**9 + 7)), chance.randrange(101)
    for policy in IdlePolicy:
        shares, findings = share_out(
            pool, policy, Weights(used, guaranteed), subject="p", guarantee_percent=percent
        )
        assert sum(shares.values()) == (0 if policy is IdlePolicy.NONE else pool)
        assert all(part >= 0 for part in shares.values())
        assert bool(shares.get(UNASSIGNED)) == bool(findings)
    cost, charged = (Decimal(chance.randrange(10**11)).scaleb(-2) for _ in "ab")
    parts, _ = to_recover(Recovery("p", cost, charged, used, by_cost=True))
    if any(used.values()):
        assert sum(ratios(used).values()) == 1
        assert total([charged, *parts.values()]) == cost
    else:
        assert parts == {}


@pytest.mark.parametrize(
    ("code", "amount", "units"),
    [
        ("JPY", "1234.5", 1234),
        ("JPY", "1235.5", 1236),
        ("EUR", "0.005", 0),
        ("EUR", "0.015", 2),
        ("EUR", "-0.025", -2),
        ("KWD", "1.0005", 1000),
        ("KWD", "1.00050000000001", 1001),
        ("EUR", "10000000000000.00", 10**15),
        ("JPY", "1000000000000000", 10**15),
        ("KWD", "1000000000000.000", 10**15),
    ],
)
def test_a_currency_has_its_own_smallest_coin(code, amount, units):
    """F28."""
    assert minor_units(Decimal(amount), code) == units
    assert minor_units(from_minor(units, code), code) == units


def test_the_table_knows_its_exponents():
    assert {exponent_of(code) for code in EXPONENTS} == {0, 2, 3}
    assert len(EXPONENTS) > 140
    with pytest.raises(UnknownCurrency, match="'EURO'"):
        exponent_of("EURO")
