"""The golden month's figures; every one of them was worked out by hand first (see `golden.py`)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from scheduler.ledger.bills import draw_bills, rounding_entries
from scheduler.ledger.closing import BookKey, Posting, entries_of
from scheduler.ledger.entries import (
    PLATFORM,
    RECOVERY,
    Entry,
    EntryKind,
    balances,
    is_balanced,
    posting,
    seal,
    verify,
)
from scheduler.ledger.segments import partition, roll_up, totals
from tests.ledger.golden import (
    BOOKED,
    CAPACITY,
    CENTS,
    EXACT_SUMS,
    FEBRUARY,
    IN_SERVICE,
    NOT_BILLABLE,
    PRICES,
    SPEECH,
    VISION,
    events,
    golden_tallies,
    restated,
)

WHERE = Posting("close 2026-02 v1", "2026-02", "2026-02", "root")


def first_close() -> list[Entry]:
    tallies, findings, _ = golden_tallies()
    assert findings == []
    adjustment = posting(
        Entry(
            batch="adjustment 1",
            kind=EntryKind.ADJUSTMENT,
            period="2026-02",
            service_period="2026-02",
            debit=VISION,
            credit=RECOVERY,
            amount=Decimal("-5.005"),
            currency="EUR",
            reason="the new driver cost a day",
            created_by="finance",
        )
    )
    return [one.entry for one in seal([adjustment, *entries_of(tallies, {}, WHERE)])]


def booked(entries: list[Entry]) -> dict[BookKey, tuple[int, Decimal, Decimal]]:
    """What the books hold for a service month, folded from entries."""
    found: dict[BookKey, tuple[int, Decimal, Decimal]] = {}
    for entry in entries:
        if entry.sku:
            turned = entry.debit == RECOVERY
            key = BookKey(entry.credit if turned else entry.debit, entry.sku, entry.rate_id)
            sign = -1 if turned else 1
            seconds, amount, _ = found.get(key, (0, Decimal(0), Decimal(0)))
            found[key] = (
                seconds + (-entry.gpu_seconds if turned else entry.gpu_seconds),
                amount + sign * entry.amount,
                entry.unit_price,
            )
    return found


def test_the_cards_time():
    found = totals(partition(events()), FEBRUARY.start_s, FEBRUARY.end_s)
    assert +found == CAPACITY
    rolled = roll_up(found)
    assert rolled.in_service == IN_SERVICE
    assert rolled.allocated == 334_800 + 660 + 1_200
    assert rolled.allocated + rolled.idle + rolled.unallocated == IN_SERVICE


def test_the_lines():
    tallies, findings, lines = golden_tallies()
    assert findings == []
    found = {
        (key.account, key.sku, key.rate_id): (tally.amount, tally.gpu_seconds)
        for key, tally in tallies.by_key.items()
    }
    assert found == {key: (Decimal(amount), s) for key, (amount, s) in BOOKED.items()}
    # a1 over midnight and the price change, with its overhead
    assert [(x.rate_id, x.gpu_seconds) for x in lines if x.holder == "a1"] == [
        ("ho", 600),
        ("h1", 13_800),
        ("h2", 15_000),
    ]


def test_the_statements():
    entries = first_close()
    control, bills = draw_bills(entries, "EUR")
    assert control == 25_063
    assert {b.account: b.exact for b in bills} == {k: Decimal(v) for k, v in EXACT_SUMS.items()}
    assert {b.account: b.units for b in bills} == CENTS
    assert {b.account: b.rounding for b in bills} == {
        "team:1": Decimal("-0.0016944438"),
        "team:2": Decimal("0.0000277768"),
        PLATFORM: Decimal("0.003333334"),
    }
    for bill in bills:
        assert sum(bill.parts.values()) == bill.units


def test_the_books_balance_and_hold():
    entries = first_close()
    _, bills = draw_bills(entries, "EUR")
    chain = list(seal([*entries, *rounding_entries(bills, "EUR", WHERE)]))
    assert verify(chain)[2] is None
    assert is_balanced(one.entry for one in chain)
    owed = balances(one.entry for one in chain)
    assert owed["EUR", "team:1"] == Decimal("-0.0016944438")
    assert owed["EUR", RECOVERY] == Decimal("-250.628333333")
    assert sum(owed.values()) == 0


def test_closing_again_posts_nothing():
    tallies, _, _ = golden_tallies()
    assert entries_of(tallies, booked(first_close()), WHERE) == []


def test_a_fact_learnt_after_the_close_is_a_correction_in_march():
    """F11: a3's card turns out to have failed. Its 3 h at 5.00 move from vision to the platform."""
    entries = first_close()
    now, _, _ = golden_tallies(not_billable=NOT_BILLABLE | {"a3"})
    march = Posting("correct 2026-02", "2026-03", "2026-02", "root", "a3", is_correction=True)
    posted = entries_of(now, booked(entries), march)
    assert [(e.kind, e.debit, e.credit, e.sku, e.amount, e.gpu_seconds) for e in posted] == [
        (EntryKind.CORRECTION, PLATFORM, RECOVERY, "h100:overhead", 0, 30),
        (EntryKind.CORRECTION, PLATFORM, RECOVERY, "h100:run-guaranteed", 15, 10_800),
        (EntryKind.CORRECTION, VISION, RECOVERY, "h100:overhead", 0, -30),
        (EntryKind.CORRECTION, RECOVERY, VISION, "h100:run-guaranteed", 15, 10_800),
    ]
    assert {(e.period, e.service_period) for e in posted} == {("2026-03", "2026-02")}
    after = {key: row[:2] for key, row in booked([*entries, *posted]).items()}
    recomputed = {key: (t.gpu_seconds, t.amount) for key, t in now.by_key.items()}
    assert {k: v for k, v in after.items() if any(v)} == recomputed


def test_a_restated_price_posts_new_less_old_per_account():
    """F12: h100 from the 15th at 4.50, not 5.00: vision ran 4.166666667 + 3 h, speech 2 h."""
    entries = first_close()
    now, _, _ = golden_tallies(restated(PRICES))
    march = Posting("restate", "2026-03", "2026-02", "root", "h100", is_correction=True)
    posted = entries_of(now, booked(entries), march)
    assert {e.kind for e in posted} == {EntryKind.CORRECTION}
    owed = balances(posted)
    assert owed["EUR", VISION] == Decimal("-3.5833333335")
    assert owed["EUR", SPEECH] == Decimal("-1")
    assert ("EUR", PLATFORM) not in owed


@pytest.mark.parametrize("flavour", ["h100", "a100", "l40"])
def test_without_a_price_nothing_is_closed(flavour):
    _, findings, _ = golden_tallies(tuple(p for p in PRICES if p.flavour != flavour))
    assert any(f.blocks and f.subject.startswith(f"{flavour}:") for f in findings)
