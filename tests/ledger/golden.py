"""The golden month: February 2026 of a cluster of three cards, worked out by hand.

Two teams: `team:1/project:1` (vision) and `team:2/project:2` (speech). Three cards, all enrolled on
1 February 00:00: h0 (h100), a0 (a100), l0 (l40), each in the pool of its flavour.

Prices in EUR per GPU-hour: h100 4.00 until 15 February 00:00, then 5.00, its overhead 0; a100 2.00;
l40 1.00, its idle share 0.10. Only the pool of l40 shares its idle time, by use.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from scheduler.ledger.closing import Window, payer, tally
from scheduler.ledger.costs.spare import SharePolicy, Spares
from scheduler.ledger.entries import PLATFORM
from scheduler.ledger.periods import Month
from scheduler.ledger.rating import Held, Price, PriceList, UsageLine
from scheduler.ledger.segments import Bucket, DeviceEvent, Kind, Segment, partition
from scheduler.ledger.shares import IdlePolicy

FEBRUARY = Month(2026, 2)
VISION, SPEECH = "team:1/project:1", "team:2/project:2"
FLAVOURS = {"h0": "h100", "a0": "a100", "l0": "l40"}
ACCOUNTS = {"a1": VISION, "a2": SPEECH, "a3": VISION, "a4": SPEECH, "a5": SPEECH}
ACCOUNTS |= {"a6": VISION, "a7": SPEECH}
# a4 ended because its node was lost: not billable.
NOT_BILLABLE = frozenset({"a4"})


def at(text: str) -> int:
    """`15 04:10[:30]` of February 2026, or of March where the day is beyond 28."""
    day, _, clock = text.partition(" ")
    parts = [int(part) for part in (clock or "00:00").split(":")]
    hour, minute, second = (*parts, 0, 0)[:3]
    base = datetime(2026, 2, 1, hour, minute, second, tzinfo=UTC)
    return int(base.timestamp()) + (int(day) - 1) * 86_400


_STORY = """
1 00:00     h0 enrolled
1 00:00     a0 enrolled
1 00:00     l0 enrolled
1 00:00     l0 held a7, started
1 01:00     l0 released a7
3 00:00     a0 held a4, started
3 06:00     a0 silent
3 06:20     a0 lost, released a4
3 08:00     a0 heard, held a5, started
5 08:00     a0 released a5
10 00:00    l0 drained
12 00:00    l0 resumed
14 20:00    h0 held a1
14 20:10    h0 started
15 04:10    h0 released a1
20 10:00    h0 held a2 borrowed, started
20 12:00    h0 stopping
20 12:00:30 h0 released a2, held a3
20 12:01    h0 started
20 15:01    h0 released a3
27 23:00    l0 held a6, started
30 01:00    l0 released a6
"""


def events() -> list[DeviceEvent]:
    """The month's events; every line of the story is a commit."""
    found = []
    for commit, line in enumerate(_STORY.strip().splitlines()):
        moment, rest = line[:12].strip(), line[12:]
        device, _, what = rest.partition(" ")
        for step in what.split(", "):
            kind, holder, tier = (*step.split(), "", "")[:3]
            found.append(DeviceEvent(at(moment), commit, device, Kind(kind), holder, tier))
    return found


PRICES = (
    Price("h1", "h100", "", Decimal("4.00"), "EUR", at("1") - 86_400),
    Price("h2", "h100", "", Decimal("5.00"), "EUR", at("15")),
    Price("ho", "h100", "overhead", Decimal(0), "EUR", at("1")),
    Price("a1", "a100", "", Decimal("2.00"), "EUR", at("1")),
    Price("l1", "l40", "", Decimal("1.00"), "EUR", at("1")),
    Price("li", "l40", "idle-share", Decimal("0.10"), "EUR", at("1")),
)


def window(prices: tuple[Price, ...] = PRICES) -> Window:
    return Window(
        start_s=FEBRUARY.start_s,
        end_s=FEBRUARY.end_s,
        currency="EUR",
        prices=PriceList(prices),
        policies={"l40": SharePolicy(idle=IdlePolicy.BY_USE)},
    )


def held(segments: list[Segment], not_billable: frozenset[str] = NOT_BILLABLE) -> list[Held]:
    """Segments as the close reads them, by holder and time."""
    found = [
        Held(
            holder=s.holder,
            account=payer(
                ACCOUNTS.get(s.holder), s.bucket, is_billable=s.holder not in not_billable
            ),
            pool=FLAVOURS[s.device],
            flavour=FLAVOURS[s.device],
            bucket=s.bucket,
            tier=s.tier,
            start_s=s.start_s,
            end_s=FEBRUARY.end_s if s.end_s is None else s.end_s,
        )
        for s in segments
    ]
    return sorted(found, key=lambda h: (h.holder, h.start_s))


def golden_tallies(prices: tuple[Price, ...] = PRICES, not_billable: frozenset[str] = NOT_BILLABLE):
    """Tallies, findings and lines of the month."""
    lines: list[UsageLine] = []
    segments = partition(events())
    spares = Spares(FEBRUARY.start_s, FEBRUARY.end_s)
    for segment in segments:
        spares.add(segment, FLAVOURS[segment.device], FLAVOURS[segment.device])
    month = held(segments, not_billable)
    tallies, findings = tally(month, spares.found(), window(prices), lines.append)
    return tallies, findings, lines


def restated(prices: tuple[Price, ...] = PRICES) -> tuple[Price, ...]:
    """The same price list with h100's second price restated from 5.00 to 4.50."""
    return tuple(
        replace(price, id="h2b", per_gpu_hour=Decimal("4.50")) if price.id == "h2" else price
        for price in prices
    )


# What follows was worked out by hand, before any of it was computed.
# 3 cards x 28 days x 86 400 s.
IN_SERVICE = 7_257_600
CAPACITY = {
    # h0: a1 3:50 + 4:10, a2 2:00, a3 3:00 = 46 800; a0: a4 6:00, a5 48:00 = 194 400;
    # l0: a7 1:00, a6 25:00 up to the end of the month = 93 600
    Bucket.RUN: 334_800,
    # a1 10 min, a2 stopping 30 s, a3 30 s
    Bucket.OVERHEAD: 660,
    # a4 from silence to loss: 20 min
    Bucket.UNREACHABLE: 1_200,
    # a0 after the loss: 06:20 to 08:00
    Bucket.DOWN: 6_000,
    # l0: two days
    Bucket.DRAINED: 172_800,
    # all the rest
    Bucket.FREE: 6_742_140,
}
# Exact amounts by account, SKU and rate.
BOOKED = {
    # 13 800 s = 3.833333333 h at 4.00
    (VISION, "h100:run-guaranteed", "h1"): ("15.333333332", 13_800),
    # a1: 15 000 s = 4.166666667 h at 5.00 = 20.833333335; a3: 3 h at 5.00 = 15
    (VISION, "h100:run-guaranteed", "h2"): ("35.833333335", 25_800),
    (SPEECH, "h100:run-borrowed", "h2"): ("10", 7_200),
    # overhead costs 0, and is booked all the same
    (VISION, "h100:overhead", "ho"): ("0", 630),
    (SPEECH, "h100:overhead", "ho"): ("0", 30),
    # a4: 6 h at 2.00, paid by the platform, as its node was lost
    (PLATFORM, "a100:run-guaranteed", "a1"): ("12", 21_600),
    # 1 200 s = 0.333333333 h at 2.00
    (PLATFORM, "a100:unreachable", "a1"): ("0.666666666", 1_200),
    # 16 h + 24 h + 8 h at 2.00
    (SPEECH, "a100:run-guaranteed", "a1"): ("96", 172_800),
    (VISION, "l40:run-guaranteed", "l1"): ("25", 90_000),
    (SPEECH, "l40:run-guaranteed", "l1"): ("1", 3_600),
    # l40's free seconds, shared 90 000 : 3 600 day by day. A whole day of 86 400 s gives vision
    # 83 076.92 and speech 3 323.08: the odd second is vision's. 23 such days (not 1, 10, 11, 27,
    # 28). On 1 and 27 February 82 800 s give 79 615.38 and 3 184.62: the odd second is speech's.
    # vision: 23 x 83 077 + 2 x 79 615; 23 x 23.076944444 h + 2 x 22.115277778 h, at 0.10
    (VISION, "l40:idle-share", "li"): ("57.5000277768", 2_070_001),
    # speech: 23 x 3 323 + 2 x 3 185; 23 x 0.923055556 h + 2 x 0.884722222 h, at 0.10
    (SPEECH, "l40:idle-share", "li"): ("2.2999722232", 82_799),
}
EXACT_SUMS = {
    # 15.333333332 + 35.833333335 + 25 + 57.5000277768, less the adjustment of 5.005
    "team:1": "128.6616944438",
    # 10 + 96 + 1 + 2.2999722232
    "team:2": "109.2999722232",
    PLATFORM: "12.666666666",
}
# The sum is 250.628333333, so 250.63 is billed. The floors 128.66 + 109.29 + 12.66 leave two cents,
# which go to the largest fractions of a cent: speech (.997) and the platform (.667).
CENTS = {"team:1": 12_866, "team:2": 10_930, PLATFORM: 1_267}


# Budgets of the month, in EUR and in GPU-seconds that were charged directly, shares left out.
BUDGETS = {
    # vision's money: its statement, 128.66 after rounding
    "vision": "128.66",
    # both teams: 128.66 + 109.30
    "org": "237.96",
    # speech's hours: 7 200 + 30 on h100, 172 800 on a100, 3 600 on l40
    "speech": 183_630,
    # speech's project from 15 February on: 10 for a2, and its idle shares of 15 to 26 February,
    # 12 x 3 323 s, and of the 27th, 3 185 s: 12 x 0.0923055556 + 0.0884722222
    "speech late": "11.1961388894",
    # vision's project from 15 February on: a1 04:10 h and a3 3 h on h100, 30 s before a3, a6 25 h
    "vision late": 115_830,
}
# vision's money when 20 February was over: 15.333333332 + 35.833333335 of a1 and a3, -5.005 by
# hand; nobody of vision had used l40 by then, so its idle time was speech's.
VISION_BY_THE_21ST = "46.161666667"
