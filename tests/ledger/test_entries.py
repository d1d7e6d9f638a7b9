"""F7, F23: debits equal credits, and a chain shows every change."""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace
from decimal import Decimal

import pytest

from scheduler.ledger.entries import (
    GENESIS,
    PLATFORM,
    RECOVERY,
    Entry,
    EntryKind,
    Sealed,
    balances,
    canonical,
    effect,
    is_balanced,
    posting,
    seal,
    verify,
)
from scheduler.ledger.exact import total


def some_entries(seed: int, count: int = 12) -> list[Entry]:
    chance = random.Random(seed)
    return [
        posting(
            Entry(
                batch=f"b{number // 5}",
                kind=chance.choice(tuple(EntryKind)),
                period=f"2026-{chance.randrange(1, 13):02d}",
                service_period="2026-01",
                debit=chance.choice(("team:1/project:1", "team:2/project:2", PLATFORM)),
                credit=RECOVERY,
                amount=Decimal(chance.randrange(-(10**20), 10**20)).scaleb(-15),
                currency=chance.choice(("EUR", "JPY")),
                sku="h100:run-guaranteed",
                rate_id=str(number),
                unit_price=Decimal("2.5"),
                gpu_seconds=chance.randrange(10**6),
                lines=3,
                lines_digest="ab" * 32,
                reason="größer, „gleich“\n",
                created_by="root",
            )
        )
        for number in range(count)
    ]


def test_debits_equal_credits_whatever_is_posted():
    for seed in range(1_000):
        check_balance(seed)


@pytest.mark.long
def test_debits_equal_credits_ten_thousand_times():
    for seed in range(10_000):
        check_balance(seed)


def check_balance(seed: int) -> None:
    entries = some_entries(seed)
    assert is_balanced(entries)
    by_account = balances(entries)
    for currency in ("EUR", "JPY"):
        assert total(v for (code, _), v in by_account.items() if code == currency) == 0
    assert all(entry.amount >= 0 for entry in entries)
    for (currency, account), owed in by_account.items():
        mine = [effect(e, account) for e in entries if e.currency == currency]
        assert total(mine) == owed


def test_a_chain_holds_and_says_where_it_ends():
    chain = list(seal(some_entries(1)))
    assert verify(chain) == (12, chain[-1].hash, None)
    assert verify([]) == (0, GENESIS, None)
    assert [s.entry.number for s in chain] == list(range(1, 13))


def test_a_chain_goes_on_behind_its_head():
    first = list(seal(some_entries(1)))
    then = list(seal(some_entries(2), head=first[-1].hash, first_number=13))
    assert verify([*first, *then])[2] is None


def changed_value(value: object) -> object:
    if isinstance(value, EntryKind):
        return EntryKind.CREDIT if value is not EntryKind.CREDIT else EntryKind.USAGE
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:] if value else "x"
    if isinstance(value, Decimal):
        return value + Decimal("1e-15")
    assert isinstance(value, int)
    return value + 1


@pytest.mark.parametrize("name", [field.name for field in fields(Entry)])
def test_one_changed_value_is_found_and_named(name):
    """F23, for every field of an entry."""
    chain = list(seal(some_entries(3)))
    old = chain[6]
    value = changed_value(getattr(old.entry, name))
    chain[6] = replace(old, entry=replace(old.entry, **{name: value}))
    count, _, found = verify(chain)
    assert (count, found.number) == (6, 7)


@pytest.mark.parametrize("name", ["previous", "hash"])
def test_a_changed_seal_is_found(name):
    chain = list(seal(some_entries(3)))
    value = getattr(chain[6], name)
    chain[6] = replace(chain[6], **{name: ("0" if value[0] != "0" else "1") + value[1:]})
    assert verify(chain)[2].number == 7


def test_what_is_hashed_holds_every_field():
    (only,) = seal(some_entries(3, 1))
    text = canonical(only.entry)
    assert text.isascii()
    assert set(json.loads(text)) == {field.name for field in fields(Entry)}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda chain: chain.pop(4), "entry 5 is missing"),
        (lambda chain: chain.insert(4, chain[3]), "entry 5 is missing"),
        (lambda chain: chain.pop(), "entries after number 11 are missing"),
    ],
)
def test_taking_out_putting_in_and_cutting_off_are_found(spoil, words):
    chain = list(seal(some_entries(3)))
    head = chain[-1].hash
    spoil(chain)
    assert verify(chain, head=head)[2].words == words


def test_a_chain_forged_from_its_middle_needs_another_head():
    chain = list(seal(some_entries(3)))
    forged: list[Sealed] = chain[:5] + list(
        seal(some_entries(4)[5:], head=chain[4].hash, first_number=6)
    )
    assert verify(forged)[2] is None
    assert verify(forged, head=chain[-1].hash)[2] is not None
