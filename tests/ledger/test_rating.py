"""F5, F6, F14: lines carry every charged second once, and never span a boundary."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal, Inexact
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.exact import EXACT, gpu_hours, plain, times, total
from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import (
    DAY_S,
    ChargeKind,
    Held,
    Price,
    PriceList,
    UsageLine,
    cut,
    kind_of,
    rate,
)
from scheduler.ledger.segments import Bucket, partition
from tests.ledger.histories import History, history

ACCOUNTS = ("team:1/project:1", "team:1/project:2", "team:2/project:3")


def price(
    per_hour: str, from_s: int = 0, *, flavour: str = "h100", kind: str = "", id: str = "", **more
) -> Price:
    return Price(
        id=id or f"{flavour}-{kind}-{from_s}",
        flavour=flavour,
        kind=kind,
        per_gpu_hour=Decimal(per_hour),
        currency="EUR",
        from_s=from_s,
        **more,
    )


def held_of(made: History) -> list[Held]:
    """The history's segments as rating takes them, grouped by holder."""
    return sorted(
        (
            Held(
                holder=s.holder,
                account=ACCOUNTS[sum(map(ord, s.holder)) % 3],
                pool="gpu",
                flavour="h100" if s.device == "d0" else "a100",
                bucket=s.bucket,
                tier=s.tier,
                start_s=s.start_s,
                end_s=made.end_s if s.end_s is None else s.end_s,
            )
            for s in partition(made.events)
        ),
        key=lambda h: (h.holder, h.start_s),
    )


def random_prices(chance: random.Random, end_s: int) -> PriceList:
    return PriceList(random_rates(chance, end_s))


def random_rates(chance: random.Random, end_s: int) -> list[Price]:
    prices = [price("2.5", flavour="", id="any")]
    for number in range(chance.randrange(6)):
        prices.append(
            price(
                f"{chance.randrange(10_000_000)}e-6",
                chance.randrange(end_s + 1),
                flavour=chance.choice(("h100", "a100")),
                kind=chance.choice(("", "run-borrowed", "overhead")),
                id=f"r{number}",
            )
        )
    prices.append(price("0.5", flavour="", kind="reserved-idle", id="reserve"))
    return prices


def test_lines_carry_all_charged_seconds_and_cross_no_boundary():
    for seed in range(300):
        made = history(seed)
        chance = random.Random(seed)
        held = held_of(made)
        prices = random_prices(chance, made.end_s)
        start, end = sorted(chance.randrange(made.end_s + 1) for _ in "ab")
        lines = [line for line in rate(held, prices, start, end) if isinstance(line, UsageLine)]
        charged: Counter[tuple[str, str, str]] = Counter()
        for segment in held:
            kind = kind_of(segment.bucket, segment.tier)
            seconds = max(0, min(segment.end_s, end) - max(segment.start_s, start))
            if kind is not None:
                charged[segment.holder, segment.flavour, kind] += seconds
        found: Counter[tuple[str, str, str]] = Counter()
        for line in lines:
            found[line.holder, line.flavour, line.kind] += line.gpu_seconds
            assert line.day_s % DAY_S == 0
            assert line.amount == line.gpu_hours * line.unit_price
        assert +found == +charged
        assert len({(x.holder, x.day_s, x.flavour, x.kind, x.rate_id) for x in lines}) == len(lines)


def test_each_second_has_the_price_of_its_moment():
    """F6: priced second by second, a short history costs the same."""
    every = [price("3", id="1"), price("4", 50, id="9"), price("5", 50, id="10")]
    every.append(price("6", 90, id="11"))
    every.append(price("7", 20, id="12", until_s=33, priority=1))
    every.append(price("8", 40, id="13", until_s=45, team="team:1"))
    held = [Held("a", ACCOUNTS[0], "gpu", "h100", Bucket.RUN, "", 10, 130)]
    lines = {x.rate_id: x.gpu_seconds for x in rate(held, PriceList(every), 0, 1000)}
    found = (naive(every, "h100", ChargeKind.RUN, second, ACCOUNTS[0]) for second in range(10, 130))
    assert lines == dict(Counter(one.id for one in found if one))


# Team 3 is below team 2, which is below team 1.
WAYS = {"team:1": ("team:1",), "team:2": ("team:2", "team:1")}
WAYS["team:3"] = ("team:3", *WAYS["team:2"])


def naive(
    prices: list[Price], flavour: str, kind: ChargeKind, at_s: int, account: str = ""
) -> Price | None:
    """What a person would do: look at all that are in force, the nearest team's card first, of it
    the most particular, of those the highest priority, the latest, the one that was decided last.
    Shares have no general price."""
    way = ("", *reversed(WAYS.get(account.partition("/")[0], ())))

    def rank(one: Price) -> tuple[int, int, int, int, int]:
        particular = 2 * (one.flavour != "") + (one.kind != "")
        return (way.index(one.team), particular, one.priority, one.from_s, int(one.id))

    is_held = kind in (
        ChargeKind.RUN,
        ChargeKind.RUN_BORROWED,
        ChargeKind.OVERHEAD,
        ChargeKind.UNREACHABLE,
    )
    kinds = ("", kind) if is_held else (kind,)
    best = None
    for one in prices:
        fits = one.flavour in ("", flavour) and one.kind in kinds
        fits = fits and one.team in way and one.from_s <= at_s
        fits = fits and (one.until_s is None or at_s < one.until_s)
        if fits and (best is None or rank(one) > rank(best)):
            best = one
    return best


def test_any_second_has_the_price_that_looking_at_all_of_them_finds():
    """F6: ids 9 and 10 often begin in the same second; the later decision holds."""
    for seed in range(500):
        chance = random.Random(seed)
        prices = [
            price(
                str(number),
                chance.choice((0, 5, 5, 11)),
                flavour=chance.choice(("h100", "", "a100")),
                kind=chance.choice(("", "", *ChargeKind)),
                id=str(number),
                until_s=chance.choice((None, None, 5, 11, 50)),
                priority=chance.choice((0, 0, 1)),
                team=chance.choice(("", "", "team:1", "team:2", "team:3")),
            )
            for number in range(2, 14)
        ]
        listed = PriceList(prices, WAYS)
        account = chance.choice(("platform", "team:1/project:1", "team:3/project:3", "team:4"))
        for kind in ChargeKind:
            changes = listed.changes("h100", kind, -1, 100, account)
            found = [naive(prices, "h100", kind, at_s, account) for at_s in range(-1, 100)]
            assert found == [listed.at("h100", kind, at_s, account) for at_s in range(-1, 100)]
            cuts = {at_s for at_s in range(100) if found[at_s] != found[at_s + 1]}
            assert cuts <= set(changes), "lines are split wherever the price changes"


def test_windows_split_the_same_seconds():
    """F4 for lines: rating two halves gives the seconds of rating the whole."""
    for seed in range(100):
        made = history(seed)
        held = held_of(made)
        prices = random_prices(random.Random(seed), made.end_s)
        middle = random.Random(seed + 7).randrange(made.end_s + 1)

        def seconds(start, end, held=held, prices=prices):
            by: Counter[tuple[str, str]] = Counter()
            for line in rate(held, prices, start, end):
                by[line.holder, line.rate_id] += line.gpu_seconds
            return by

        whole = seconds(0, made.end_s)
        assert +(seconds(0, middle) + seconds(middle, made.end_s)) == +whole


def test_what_has_no_price_is_a_finding_and_no_line():
    held = [Held("a", ACCOUNTS[0], "gpu", "h100", Bucket.RUN, "", 10, 130)]
    (found,) = rate(held, PriceList([price("3", 500)]), 0, 1000)
    assert isinstance(found, Finding)
    assert (found.trouble, found.blocks) == (Trouble.NO_RATE, True)
    assert "h100:run-guaranteed" in found.subject


def test_a_general_price_does_not_serve_shares():
    assert PriceList([price("3")]).at("h100", ChargeKind.IDLE_SHARE, 5) is None
    only = PriceList([price("1", kind="idle-share", flavour="")])
    assert only.at("h100", ChargeKind.IDLE_SHARE, 5).per_gpu_hour == 1


def test_a_price_of_nothing_is_a_price():
    held = [Held("a", ACCOUNTS[0], "gpu", "h100", Bucket.RUN, "", 0, 60)]
    (line,) = rate(held, PriceList([price("0")]), 0, 1000)
    assert (line.gpu_seconds, line.amount) == (60, 0)


def test_nobody_to_pay_is_a_finding():
    held = [Held("a", None, "gpu", "h100", Bucket.RUN, "", 0, 60)]
    (found,) = rate(held, PriceList([price("3")]), 0, 1000)
    assert found.trouble is Trouble.NO_ATTRIBUTION


@pytest.mark.parametrize("bad", ["-1", "NaN", "Infinity", "0.0000001"])
def test_an_impossible_price_is_refused(bad):
    with pytest.raises(ValueError, match="rate h100--0"):
        PriceList([price(bad)])


@given(st.integers(-(10**13), 10**13))
def test_hours_are_rounded_half_even_to_nine_places(seconds):
    hours = gpu_hours(seconds)
    assert hours.as_tuple().exponent == -9
    difference = abs(hours * 3600 - seconds)
    assert difference * 2 <= 3600 * Decimal("1e-9")
    if difference * 2 == 3600 * Decimal("1e-9"):
        assert int(hours.scaleb(9)) % 2 == 0


@given(st.integers(0, 10**9), st.decimals(0, 10**6, places=6))
def test_a_product_is_exact_and_fits(seconds, per_hour):
    amount = times(gpu_hours(seconds), per_hour)
    assert Decimal(plain(amount)) == amount
    assert len(plain(amount).replace(".", "").lstrip("-0")) <= 38


def test_what_does_not_fit_is_an_error():
    with pytest.raises(Inexact):
        plain(Decimal("1e-16"))
    with pytest.raises(Inexact):
        EXACT.divide(Decimal(1), Decimal(3))


def test_a_sum_is_exact_where_a_float_is_not():
    assert total([Decimal("0.1")] * 10**4) == Decimal(1000)


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.lists(st.integers(0, 10**9)))
def test_pieces_tile_and_stay_within_a_day(start, length, changes):
    changes.sort()
    pieces = list(cut(start, start + length, changes))
    assert sum(b - a for a, b in pieces) == length
    for (_, end), (begin, _) in pairwise(pieces):
        assert end == begin
    for begin, end in pieces:
        assert begin // DAY_S == (end - 1) // DAY_S
        assert not any(begin < change < end for change in changes)


@pytest.mark.parametrize(
    ("month", "days"),
    [("2024-02", 29), ("2026-02", 28), ("2026-12", 31), ("2026-03", 31), ("2026-10", 31)],
)
def test_months_are_utc_also_where_local_days_have_23_or_25_hours(month, days):
    """F14: March and October of 2026 change to and from summer time in Europe."""
    parsed = Month.parse(month)
    assert parsed.end_s - parsed.start_s == days * DAY_S
    assert Month.of(parsed.start_s) == parsed == Month.of(parsed.end_s - 1)
    assert Month.of(parsed.end_s) == parsed.following
    assert (
        datetime.fromtimestamp(parsed.start_s, UTC).strftime("%Y-%m-%d %H:%M")
        == f"{month}-01 00:00"
    )
