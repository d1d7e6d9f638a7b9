"""Months with rate cards: closed, restated, kept open by a gap, exported."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from accounts.models import Rate, RateCard, RateDecision
from accounts.services import appoint_bookkeeper, approve_rate, propose_rate
from scheduler.ledger.entries import team_of
from scheduler.ledger.focus.columns import DEFAULT_VERSION
from scheduler.ledger.focus.rules import check
from scheduler.models import LedgerEntry, UsageEntry, UsageLine
from scheduler.selectors.books.focus import focus_rows
from scheduler.services import books
from scheduler.services.errors import Conflict
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.submitting.quotes import preview_job
from scheduler.spec import parse_spec
from tests import scenes
from tests.scenes import at
from tests.services.test_budgets import with_lease

pytestmark = pytest.mark.django_db
DECEMBER = datetime(2026, 12, 2, 9, tzinfo=UTC)


@pytest.fixture
def yard(root, finance, alice, carol, project, other_project, team):
    """Two hours of vision and of speech at 3.60 by the list; vision's own card says 1.25 from the
    second hour on."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=1)
    Rate.objects.update(decided_at=at(0))
    appoint_bookkeeper(actor=root, user=finance)
    card = RateCard.objects.create(
        name="own", currency="EUR", team=team, decision=RateDecision.APPROVED
    )
    Rate.objects.create(
        card=card,
        device_model="",
        price_per_gpu_hour=Decimal("1.25"),
        valid_from=at(3_600),
        decision=RateDecision.APPROVED,
    )
    for number, (person, place) in enumerate(((alice, project), (carol, other_project)), 1):
        node = cluster.node(number)
        attempt = scenes.start(scenes.submit(person, place), node, now=at(0))
        scenes.sync(node, scenes.running(attempt), now=at(0))
        scenes.sync(node, scenes.ended(attempt), now=at(7_200))
    return cluster


def close(root):
    return books.close_period(actor=root, period="2026-11", now=DECEMBER)


def owed() -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for line in UsageLine.objects.filter(kind="run-guaranteed"):
        found[team_of(line.account)] = found.get(team_of(line.account), Decimal(0)) + line.amount
    return found


def test_a_team_pays_by_its_card_from_its_second_on(root, yard, team, other_team):
    close(root)
    assert owed() == {f"team:{team.pk}": Decimal("4.85"), f"team:{other_team.pk}": Decimal("7.20")}
    charged = UsageEntry.objects.filter(project__team=team).order_by("period_start")
    assert [entry.unit_price for entry in charged] == [Decimal("3.60"), Decimal("1.25")]


def test_restating_a_card_posts_new_less_old_for_its_team_alone(
    root, finance, yard, team, other_team
):
    """F12."""
    close(root)
    rate = propose_rate(
        actor=finance,
        device_model="",
        price_per_gpu_hour=Decimal("1.75"),
        valid_from=at(3_600),
        card=RateCard.objects.get(team=team),
        restate=True,
        reason="the contract says so",
    )
    approve_rate(actor=root, rate=rate)
    posted = books.correct_period(actor=root, period="2026-11", reason="contract", now=DECEMBER)
    assert posted
    rows = LedgerEntry.objects.filter(kind="correction")
    assert sum(
        row.amount if team_of(row.debit) == f"team:{team.pk}" else -row.amount for row in rows
    ) == Decimal("0.50")
    assert not rows.filter(debit__startswith=f"team:{other_team.pk}/").exists()
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER)
    assert again == []


def test_time_after_the_end_of_every_price_keeps_the_month_open(root, yard, team):
    Rate.objects.filter(card__team=team).update(valid_until=at(5_000))
    Rate.objects.exclude(card__team=team).filter(kind="").update(valid_until=at(4_000))
    with pytest.raises(Conflict) as blocked:
        close(root)
    assert "has no price on 20 Nov 2026" in str(blocked.value.facts)


def test_the_quote_is_at_the_teams_price(root, yard, team, alice, carol, project, other_project):
    def price(person, place):
        document = {"name": "x", "project": place.path, "script": "true"}
        return preview_job(actor=person, spec=parse_spec(document), now=at(7_300)).unit_price

    assert price(alice, project) == Decimal("1.25")
    assert price(carol, other_project) == Decimal("3.60")


def test_focus_says_what_the_list_asks_and_what_the_team_pays(root, yard, team):
    close(root)
    names, *rows = focus_rows(root, "2026-11")
    table = [dict(zip(names, row, strict=True)) for row in rows]
    assert not list(check(names, table, DEFAULT_VERSION))
    (own,) = [row for row in table if row["ContractedUnitPrice"] == "1.25"]
    assert (own["ListUnitPrice"], own["ListCost"]) == ("3.6", "3.6")
    assert (own["BilledCost"], own["ContractedCost"]) == ("1.25", "1.25")
    assert own["x_RateCardId"] == f"card:{RateCard.objects.get(team=team).pk}"
    assert own["SkuPriceId"] == str(Rate.objects.get(card__team=team).pk)


def test_nobody_who_waits_is_told_what_another_team_pays(
    root, yard, alice, carol, project, other_project
):
    """A budget of all, committed at the start: each job waits for the amount of its own card."""
    set_budget(
        actor=root,
        owner=None,
        amount=Decimal("1"),
        valid_from=at(0),
        valid_until=at(90 * 86_400),
        now=at(8_000),
    )
    dear, cheap = (
        scenes.submit(person, place, now=at(8_000), time_limit="1h")
        for person, place in ((carol, other_project), (alice, project))
    )
    with_lease().run_cycle(at(8_005))
    asks = []
    for job in (dear, cheap):
        job.refresh_from_db()
        assert job.wait_reason == "budget_exhausted", job.wait_facts
        asks.append(job.wait_facts["asks"])
    assert asks == ["3.60 EUR", "1.25 EUR"]
