"""F10-F13 and F26 over generated months."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.ledger.closing import Posting, Tallies, Window, entries_of, payer, tally
from scheduler.ledger.costs.spare import SharePolicy, Spare, Spares
from scheduler.ledger.entries import PLATFORM, EntryKind, is_balanced, seal
from scheduler.ledger.findings import Finding, Trouble, blocking
from scheduler.ledger.periods import (
    PERIOD_MOVES,
    Month,
    PeriodState,
    differences,
    may_post,
    obstacles,
)
from scheduler.ledger.rating import ChargeKind, Held, Price, PriceList, UsageLine
from scheduler.ledger.segments import Bucket, Segment
from scheduler.ledger.shares import IdlePolicy
from tests.ledger.histories import history
from tests.ledger.test_golden_month import booked
from tests.ledger.test_rating import held_of, price, random_rates

FIRST = Posting("close v1", "2026-01", "2026-01", "root")
LATER = Posting("correct", "2026-02", "2026-01", "root", is_correction=True)


def window_of(seed: int, end_s: int) -> Window:
    chance = random.Random(seed)
    rates = random_rates(chance, end_s)
    extra = [price("0.2", flavour="", kind="idle-share", id="i")]
    extra.append(price("0.1", flavour="", kind="platform-share", id="p"))
    merged = PriceList([*rates, *extra])
    policy = SharePolicy(
        idle=chance.choice(tuple(IdlePolicy)),
        platform=chance.choice(tuple(IdlePolicy)),
        guarantee_percent=chance.randrange(101),
        guaranteed={"team:1/project:1": chance.randrange(3), "team:3/project:9": 2},
    )
    return Window(0, end_s, "EUR", merged, {"gpu": policy})


def spare_of(held: list[Held], start_s: int, end_s: int) -> list[Spare]:
    spares = Spares(start_s, end_s)
    for h in held:
        spares.add(Segment("", h.start_s, h.end_s, h.bucket), h.pool, h.flavour)
    return spares.found()


def rated(seed: int, window_seed: int | None = None, *, steps: int = 40):
    made = history(seed, steps=steps)
    held = held_of(made)
    window = window_of(seed if window_seed is None else window_seed, made.end_s)
    lines: list = []
    tallies, findings = tally(held, spare_of(held, 0, made.end_s), window, lines.append)
    return tallies, findings, lines, held, window


def test_rating_twice_gives_the_same_hashes():
    """F10: the same input gives the same entries, byte by byte."""
    for seed in range(1_000):
        check_repeatable(seed)


@pytest.mark.long
def test_rating_twice_gives_the_same_hashes_in_ten_thousand_histories():
    for seed in range(10_000):
        check_repeatable(seed)


def check_repeatable(seed: int) -> None:
    """F10, and F7 for what a month posts; short histories."""
    heads = []
    for _ in "ab":
        tallies, *_ = rated(seed, steps=14)
        entries = entries_of(tallies, {}, FIRST)
        assert is_balanced(entries)
        chain = list(seal(entries))
        heads.append([one.hash for one in chain])
    assert heads[0] == heads[1]
    assert entries_of(tallies, booked([one.entry for one in chain]), FIRST) == []


def test_lines_and_entries_hold_the_same_seconds_and_amounts():
    """F5, F7: every charged and shared second is in exactly one line and one entry."""
    for seed in range(200):
        tallies, findings, lines, held, window = rated(seed)
        assert not [f for f in findings if f.blocks]
        entries = entries_of(tallies, {}, FIRST)
        assert sum(e.gpu_seconds for e in entries) == sum(x.gpu_seconds for x in lines)
        assert sum(e.amount for e in entries) == sum(x.amount for x in lines)
        assert sum(e.lines for e in entries) == len(lines)
        assert is_balanced(entries)
        spare = spare_of(held, 0, window.end_s)
        for kind, buckets, policy in (
            (ChargeKind.IDLE_SHARE, {Bucket.FREE}, window.policies["gpu"].idle),
            (
                ChargeKind.PLATFORM_SHARE,
                {Bucket.DOWN, Bucket.DRAINED, Bucket.QUARANTINE},
                window.policies["gpu"].platform,
            ),
        ):
            shared = sum(x.gpu_seconds for x in lines if x.kind is kind)
            there = sum(s.gpu_seconds for s in spare if s.bucket in buckets)
            assert shared == (0 if policy is IdlePolicy.NONE else there)


def test_closed_and_corrections_are_what_a_new_count_gives():
    """F11, F12: whatever changed meanwhile, prices, policies or facts."""
    for seed in range(150):
        first, *_ = rated(seed)
        entries = entries_of(first, {}, FIRST)
        now, *_ = rated(seed, window_seed=seed + 1)
        posted = entries_of(now, booked(entries), LATER)
        assert all(e.kind is EntryKind.CORRECTION and e.period == "2026-02" for e in posted)
        after = {k: v[:2] for k, v in booked([*entries, *posted]).items() if any(v[:2])}
        expected = {k: (t.gpu_seconds, t.amount) for k, t in now.by_key.items()}
        assert after == {k: v for k, v in expected.items() if any(v)}
        assert entries_of(now, booked([*entries, *posted]), LATER) == []


PAIRS = st.dictionaries(
    st.text("abc", max_size=2), st.tuples(st.integers(), st.decimals(-99, 99, places=15))
)


@given(PAIRS, PAIRS)
def test_booked_and_differences_are_the_recomputed(old, new):
    change = differences(old, new)
    for key in {*old, *new}:
        before, posted, after = (d.get(key, (0, Decimal(0))) for d in (old, change, new))
        assert (before[0] + posted[0], before[1] + posted[1]) == after
    assert all(any(value) for value in change.values())


def test_another_currency_is_a_finding():
    tallies = Tallies("USD")
    _, _, lines, _, _ = rated(3)
    assert tallies.add(lines[0]).trouble is Trouble.FOREIGN_CURRENCY
    assert tallies.by_key == {}


@pytest.mark.parametrize(
    ("bucket", "is_billable", "expected"),
    [
        (Bucket.RUN, True, "t"),
        (Bucket.RUN, False, PLATFORM),
        (Bucket.OVERHEAD, False, PLATFORM),
        (Bucket.UNREACHABLE, True, PLATFORM),
        (Bucket.RESERVED_IDLE, True, "t"),
    ],
)
def test_the_platform_pays_for_what_it_broke(bucket, is_billable, expected):
    assert payer("t", bucket, is_billable=is_billable) == expected
    # Where teams pay for silent nodes, they still do not for what the platform broke.
    pays = payer("t", bucket, is_billable=is_billable, pays_unreachable=True)
    assert pays == ("t" if bucket is Bucket.UNREACHABLE else expected)


def test_what_the_platform_pays_for_is_shared_where_its_policy_says_so():
    """Silent time is shared with broken time by use; every second once, nothing left over."""
    general = Price("1", "", "", Decimal("3.6"), "EUR", 0)
    shared = Price("2", "", ChargeKind.PLATFORM_SHARE, Decimal("0.36"), "EUR", 0)
    held = [
        Held("1", "a", "gpu", "h100", Bucket.RUN, "", 0, 300),
        Held("2", "b", "gpu", "h100", Bucket.RUN, "", 0, 600),
        Held("2", PLATFORM, "gpu", "h100", Bucket.UNREACHABLE, "", 600, 690),
        Held("3", PLATFORM, "gpu", "h100", Bucket.RUN, "", -50, 10),
    ]
    down = [Spare(0, "gpu", "h100", Bucket.DOWN, 2)]
    for policy, expected in (
        (IdlePolicy.NONE, {("unreachable", PLATFORM): 90, ("run-guaranteed", PLATFORM): 10}),
        (IdlePolicy.BY_USE, {("platform-share", "a"): 34, ("platform-share", "b"): 68}),
    ):
        window = Window(
            0, 86_400, "EUR", PriceList([general, shared]), {"gpu": SharePolicy(platform=policy)}
        )
        lines: list[UsageLine] = []
        tallies, findings = tally(held, down, window, lines.append)
        assert findings == []
        seen: dict[tuple[str, str], int] = {}
        for line in lines:
            if line.holder not in ("1", "2") or line.account == PLATFORM:
                key = (str(line.kind), line.account)
                seen[key] = seen.get(key, 0) + line.gpu_seconds
        assert seen == expected
        assert sum(part.gpu_seconds for part in tallies.borne) == (
            100 if policy is IdlePolicy.BY_USE else 0
        )


class TestPeriods:
    MONTH = Month(2026, 11)

    def test_a_month_goes_from_open_to_closed_and_back_by_reopening(self):
        assert PERIOD_MOVES[PeriodState.CLOSED] == {PeriodState.REOPENED}
        assert PeriodState.OPEN not in set().union(*PERIOD_MOVES.values())

    def test_nothing_is_posted_in_a_closed_month(self):
        assert not any(may_post(PeriodState.CLOSED, kind) for kind in EntryKind)
        assert not may_post(PeriodState.SOFT_CLOSED, EntryKind.ADJUSTMENT)
        assert may_post(PeriodState.OPEN, EntryKind.CORRECTION)

    def test_a_month_that_is_not_over_stays_open(self):
        found = obstacles(
            self.MONTH, PeriodState.OPEN, now_s=self.MONTH.end_s - 1, earlier_open=None
        )
        assert [f.trouble for f in found] == [Trouble.NOT_OVER]
        assert "1 Dec 2026, 00:00 UTC" in found[0].words

    def test_months_are_closed_in_order(self):
        found = obstacles(
            self.MONTH,
            PeriodState.SOFT_CLOSED,
            now_s=self.MONTH.end_s,
            earlier_open=Month(2026, 9),
        )
        assert [(f.trouble, f.subject) for f in found] == [(Trouble.EARLIER_OPEN, "2026-09")]

    def test_a_closed_month_is_reopened_first(self):
        found = obstacles(self.MONTH, PeriodState.CLOSED, now_s=self.MONTH.end_s, earlier_open=None)
        assert [f.trouble for f in found] == [Trouble.UNDECIDED]

    @pytest.mark.parametrize(
        "text", ["2026", "2026-13", "2026-1", "26-x", "", "2026-00", "9999-01"]
    )
    def test_what_is_no_month_is_refused(self, text):
        with pytest.raises(ValueError, match="period"):
            Month.parse(text)

    def test_the_last_month_of_books_has_one_after_it(self):
        last = Month.parse("9998-12")
        assert last.end_s == last.following.start_s == last.start_s + 31 * 86_400

    def test_remarks_do_not_block(self):
        remark = Finding(Trouble.NO_WEIGHTS, "pool", "…")
        missing = Finding(Trouble.NO_RATE, "sku", "…")
        assert blocking([remark, missing, missing]) == [missing]
