"""Random weeks of a cluster on real rows, closed and looked at from every side.

25 in the usual run, 500 more with `-m long`. What is compared is counted anew here, from segments.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.errors import Invalid
from accounts.models import Project, Rate, RateCard, RateDecision, Team
from scheduler.ledger.entries import balances
from scheduler.ledger.exact import total
from scheduler.models import (
    Attempt,
    DeviceSegment,
    LedgerEntry,
    Node,
    PoolTerms,
    Statement,
    UsageLine,
)
from scheduler.selectors.books.chain import chained
from scheduler.services import books
from scheduler.services.sharing.grants import give_grant
from scheduler.services.sharing.limits import set_quota
from scheduler.states import END_RULES, EndReason
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_segments import something

pytestmark = pytest.mark.django_db
START = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp())
END = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp())
PRICES = {
    "run-borrowed": "1.234",
    "overhead": "0.5",
    "reserved-idle": "0.7",
    "idle-share": "0.1",
    "platform-share": "0.0333",
}
POLICIES = ("none", "even", "by_use", "by_guarantee", "hybrid")
RUN = {"run-guaranteed", "run-borrowed"}


def price(kind: str, amount: str, moment: datetime, card: RateCard | None = None) -> None:
    Rate.objects.filter(kind=kind, device_model="", card=card, valid_until=None).update(
        valid_until=moment
    )
    Rate.objects.create(
        card=card,
        kind=kind,
        device_model="",
        price_per_gpu_hour=Decimal(amount),
        valid_from=moment,
        decision=RateDecision.APPROVED,
    )


def live(chance, root, people, teams) -> float:
    """Some days around the end of November; returns the last second after noon of the 20th."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    for kind, amount in PRICES.items():
        price(kind, amount, NOON - timedelta(days=30))
    price("run-borrowed", "2.5", at(chance.randrange(500_000)))
    card = RateCard.objects.create(
        name="own", currency="EUR", team=chance.choice(teams), decision=RateDecision.APPROVED
    )
    price("", "0.123457", at(chance.randrange(300_000)), card)
    price("", "9", at(300_000 + chance.randrange(300_000)), card)
    price("idle-share", "0.2", at(chance.randrange(300_000)), card)
    brief = Rate.objects.filter(card=card, kind="", valid_until=None)
    brief.update(valid_until=at(700_000))
    figures = {"guarantee_percent": chance.randrange(101), "refund_s": chance.choice((0, 900))}
    silent = chance.choice(("platform", "team"))
    books.propose_terms(
        actor=root,
        pool=cluster.pool,
        idle=chance.choice(POLICIES),
        platform=chance.choice(POLICIES),
        recovery=chance.choice(("rates", "cost")),
        unreachable=silent,
        **figures,
    )
    clock = 0.0
    for step in range(14):
        clock += chance.choice((0.4, 1, 7.7, 200, 5_000, 40_000, 130_000))
        person, project = chance.choice(people)
        node = Node.objects.get(pk=chance.choice(cluster.nodes).pk)
        something(chance, node, root, person, project, clock)
        if step % 5 == 2:
            team = chance.choice(teams)
            # What would guarantee more than there is, beside all the others, is refused.
            with suppress(Invalid):
                quota = set_quota(
                    actor=root, owner=team, guaranteed=chance.randrange(1, 3), now=at(clock)
                )
                give_grant(
                    actor=root,
                    quota=quota,
                    guaranteed=1,
                    valid_from=at(clock + chance.randrange(50_000)),
                    valid_until=at(clock + 60_000 + chance.randrange(50_000)),
                    now=at(clock),
                )
    return clock


def counted() -> Counter[str]:
    """November's device seconds by bucket; held ones by whether the platform pays: `p:run`."""
    found: Counter[str] = Counter()
    pays = PoolTerms.objects.get().unreachable == "team"
    for row in DeviceSegment.objects.select_related("attempt"):
        seconds = min(END if row.end_s is None else row.end_s, END) - max(row.start_s, START)
        reason = row.attempt.end_reason if row.attempt else ""
        lost = bool(reason) and not END_RULES[EndReason(reason)].billable
        mark = "p:" if lost or (row.bucket == "unreachable" and not pays) else ""
        found[mark + row.bucket] += max(0, seconds)
    return found


def check_lines() -> None:
    """F5, F6: charged seconds are in lines once, each line of one day, rate and kind."""
    expected, seen = counted(), Counter[str]()
    for line in UsageLine.objects.all():
        mark = "p:" if line.account == "platform" else ""
        kind = "run" if line.kind in RUN else line.kind.replace("-", "_")
        seen[mark + kind] += line.gpu_seconds
        assert line.day_s % 86_400 == 0
        check_price(line)
        assert line.gpu_seconds > 0
    for key in ("run", "overhead", "unreachable", "reserved_idle"):
        assert seen[key] == expected[key], key
    borne = ("p:run", "p:overhead", "p:unreachable")
    broken = sum(expected[key] for key in ("drained", "down", "quarantine"))
    if seen["platform_share"]:
        assert seen["platform_share"] == broken + sum(expected[key] for key in borne)
        assert not any(seen[key] for key in borne), "shared out, so not the platform's own"
    else:
        assert {key: seen[key] for key in borne} == {key: expected[key] for key in borne}
    assert seen["idle_share"] in (0, expected["free"])


def check_price(line: UsageLine) -> None:
    """The rate held on the line's day, is the payer's team's or the list's, and is the line's."""
    rate = Rate.objects.select_related("card").get(pk=line.rate_id)
    assert rate.price_per_gpu_hour == line.unit_price
    assert rate.valid_from.timestamp() < line.day_s + 86_400
    assert rate.valid_until is None or line.day_s < rate.valid_until.timestamp()
    if rate.card is not None and rate.card.team_id:
        assert line.account.partition("/")[0] == f"team:{rate.card.team_id}"


def check_books(closed) -> None:
    """F1, F7, F9, F15, F23 by the nightly checks; balances and statements added up here too."""
    run = books.reconcile_books(now=datetime(2027, 1, 20, tzinfo=UTC))
    assert run.holds, run.checks
    entries = [link.entry for link in chained.chain_of(chained.entries_named())]
    assert total(balances(entries).values()) == 0
    statements = list(Statement.objects.filter(close=closed))
    assert sum(s.units for s in statements) == closed.control
    assert all(abs(s.rounding) < Decimal("0.01") for s in statements)


def check_history(seed, root, people, teams) -> None:
    chance = random.Random(seed)
    clock = live(chance, root, people, teams)
    now = max(at(clock), datetime(2026, 12, 2, tzinfo=UTC))
    closed = books.close_period(actor=root, period="2026-11", now=now)
    check_lines()
    check_books(closed)
    # F10, F13: names change, nothing else did, and a new count gives the same.
    for team in teams:
        Team.objects.filter(pk=team.pk).update(name=f"renamed {team.pk}", slug=f"r{team.pk}")
    Project.objects.update(name="renamed")
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=now)
    assert again == []
    # F11: what is learnt later is posted elsewhere, and closed + corrections = counted anew.
    before = LedgerEntry.objects.filter(period__name="2026-11").count()
    attempt = Attempt.objects.exclude(end_reason="").order_by("pk").last()
    if attempt is not None:
        lost = END_RULES[EndReason(attempt.end_reason)].billable
        reason = EndReason.NODE_LOST if lost else EndReason.COMPLETED
        Attempt.objects.filter(pk=attempt.pk).update(end_reason=reason)
    books.correct_period(actor=root, period="2026-11", reason="learnt", now=now)
    assert LedgerEntry.objects.filter(period__name="2026-11").count() == before
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=now)
    assert again == []
    assert books.verify_ledger().breaks == ()


@pytest.fixture
def people(alice, carol, project, other_project):
    return ((alice, project), (carol, other_project))


@pytest.mark.parametrize("seed", range(25))
def test_a_random_month_adds_up(seed, root, people, team, other_team):
    check_history(seed, root, people, (team, other_team))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25, 525))
def test_a_random_month_adds_up_five_hundred_times(seed, root, people, team, other_team):
    check_history(seed, root, people, (team, other_team))
