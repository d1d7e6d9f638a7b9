"""Rate cards: prices of a team's own, and one rule for all who look them up."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.models import AuditEvent, Rate, RateCard, RateDecision, RateKind
from accounts.selectors.rates import (
    RateTable,
    get_rate_card,
    rate_at,
    rate_cards,
    rates_of_cards,
    rates_over,
)
from accounts.services import (
    appoint_bookkeeper,
    approve_card,
    approve_rate,
    create_team,
    decline_card,
    draft_card,
    move_team,
    propose_card,
    propose_rate,
)
from scheduler.ledger.rating import ChargeKind, Price, PriceList
from scheduler.states import moment_words
from tests.accounts.pricing import HOUR, ended, held, prices
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def clerk(root, finance):
    appoint_bookkeeper(actor=root, user=finance)
    return finance


@pytest.fixture
def soon():
    return timezone.now() + HOUR


class TestTeamCards:
    def card(self, root, clerk, team, price="5", begin=None, **more):
        """An approved card with a rate for H100."""
        begin = begin or timezone.now() + HOUR
        card = draft_card(actor=clerk, name=f"{team.slug}'s", team=team, **more)
        propose_rate(
            actor=clerk,
            device_model="H100",
            price_per_gpu_hour=Decimal(price),
            valid_from=begin,
            card=card,
        )
        propose_card(actor=clerk, card=card)
        return approve_card(actor=root, card=card)

    def test_the_nearest_card_up_the_tree_goes_first_then_the_list(
        self, root, clerk, team, other_team, soon
    ):
        below = create_team(actor=root, name="Below", parent=team)
        lowest = create_team(actor=root, name="Lowest", parent=below)
        held(root, clerk, "1", soon)
        self.card(root, clerk, team, "5", soon)
        found = [prices(soon, 1, team=one)[0] for one in (None, other_team, team, below, lowest)]
        assert found == [1, 1, 5, 5, 5]
        self.card(root, clerk, below, "6", soon)
        assert [prices(soon, 1, team=one)[0] for one in (team, below, lowest)] == [5, 6, 6]
        rate = Rate.objects.get(card__team=below)
        ended(clerk, root, rate=rate, valid_until=soon + 2 * HOUR)
        assert prices(soon, 1, 2, team=lowest) == [6, 5]

    def test_a_card_of_prices_that_follow_each_other_is_approved_whole(
        self, root, clerk, team, soon
    ):
        card = draft_card(actor=clerk, name="Own", team=team)
        for price, begin, end in ((6, 2, 3), (5, 0, None), (7, 3, None)):
            propose_rate(
                actor=clerk,
                device_model="H100",
                price_per_gpu_hour=Decimal(price),
                valid_from=soon + begin * HOUR,
                valid_until=soon + end * HOUR if end else None,
                card=card,
            )
        propose_card(actor=clerk, card=card)
        approve_card(actor=root, card=card)
        assert prices(soon, 0.5, 1.5, 2.5, 3.5, team=team) == [5, 5, 6, 7]

    def test_of_prices_whose_begin_passed_while_the_card_waited_the_last_one_holds(
        self, root, clerk, team, soon
    ):
        card = draft_card(actor=clerk, name="Own", team=team)
        for price, hour in ((5, 0), (6, 1), (7, 9)):
            propose_rate(
                actor=clerk,
                device_model="H100",
                price_per_gpu_hour=Decimal(price),
                valid_from=soon + hour * HOUR,
                card=card,
            )
        propose_card(actor=clerk, card=card)
        approve_card(actor=root, card=card, now=soon + 5 * HOUR)
        assert prices(soon, 6, 10, team=team) == [6, 7]
        decided = card.rates.order_by("valid_from").values_list("decision", flat=True)
        assert sorted(decided) == ["approved", "approved", "declined"]

    def test_looking_up_many_teams_takes_one_statement_more(
        self, root, clerk, team, other_team, soon, django_assert_max_num_queries
    ):
        teams = [create_team(actor=root, name=f"T{n}", parent=team) for n in range(5)]
        held(root, clerk, "1", soon)
        self.card(root, clerk, team, "5", soon)
        with django_assert_max_num_queries(2):
            table = rates_over({"H100"})
            found = [table.at("H100", soon + HOUR, one.pk) for one in (*teams, other_team)]
        assert [int(one.price_per_gpu_hour) for one in found] == [5] * 5 + [1]

    def test_a_restatement_ends_with_its_card(self, root, clerk, team, soon):
        card = self.card(root, clerk, team, "5", soon, valid_until=soon + 9 * HOUR)
        rate = propose_rate(
            actor=clerk, device_model="H100", price_per_gpu_hour=Decimal(4), card=card,
            valid_from=soon, restate=True, reason="agreed",
        )  # fmt: skip
        approve_rate(actor=root, rate=rate)
        rate.refresh_from_db()
        assert rate.valid_until == soon + 9 * HOUR

    def test_a_card_takes_two_people_and_prices_nothing_before(self, root, clerk, team, soon):
        card = draft_card(actor=clerk, name="Own", team=team)
        with pytest.raises(Invalid, match="rate on the card first"):
            propose_card(actor=clerk, card=card)
        rate = propose_rate(
            actor=clerk,
            device_model="H100",
            price_per_gpu_hour=Decimal(5),
            valid_from=soon,
            card=card,
        )
        assert rate.decision == RateDecision.DRAFT
        with pytest.raises(Conflict, match="draft"):
            approve_rate(actor=root, rate=rate)
        propose_card(actor=clerk, card=card)
        with pytest.raises(Conflict, match="with its card"):
            approve_rate(actor=root, rate=rate)
        with pytest.raises(Forbidden, match="another person"):
            approve_card(actor=clerk, card=card)
        assert rate_at("H100", soon + HOUR, team) is None
        approve_card(actor=root, card=card)
        with pytest.raises(Conflict, match="approved"):
            decline_card(actor=root, card=card)
        assert rate_at("H100", soon + HOUR, team).price_per_gpu_hour == 5
        actions = AuditEvent.objects.filter(action__startswith="rate.").order_by("pk")
        assert list(actions.values_list("action", flat=True)) == [
            "rate.draft_card",
            "rate.propose",
            "rate.propose_card",
            "rate.approve",
            "rate.approve_card",
        ]

    def test_a_draft_may_have_gaps_and_a_proposal_may_not(self, clerk, team, soon):
        card = draft_card(
            actor=clerk, name="Own", team=team, valid_from=soon, valid_until=soon + 30 * HOUR
        )
        add = {"actor": clerk, "device_model": "H100", "price_per_gpu_hour": Decimal(1)}
        propose_rate(**add, valid_from=soon + HOUR, valid_until=soon + 10 * HOUR, card=card)
        propose_rate(**add, valid_from=soon + 20 * HOUR, card=card)
        with pytest.raises(Invalid) as refused:
            propose_card(actor=clerk, card=card)
        assert f"H100, {RateKind.GENERAL.label}: no price from {moment_words(soon)} until" in str(
            refused.value
        )
        assert f"no price from {moment_words(soon + 10 * HOUR)} until" in str(refused.value)
        with pytest.raises(Invalid, match="does not live"):
            propose_rate(**add, valid_from=soon + 31 * HOUR, card=card)
        propose_rate(**add, valid_from=soon, valid_until=soon + HOUR, card=card)
        propose_rate(**add, valid_from=soon + 10 * HOUR, valid_until=soon + 20 * HOUR, card=card)
        assert propose_card(actor=clerk, card=card).decision == RateDecision.PROPOSED

    def test_one_card_of_a_team_at_a_time(self, root, clerk, team, soon):
        self.card(root, clerk, team, begin=soon, valid_until=soon + 10 * HOUR)
        with pytest.raises(Conflict, match="in this time already"):
            draft_card(actor=clerk, name="Second", team=team)
        draft_card(actor=clerk, name="Second", team=team, valid_from=soon + 10 * HOUR)

    def test_leads_see_their_teams_card_and_no_other(
        self, root, clerk, team, other_team, lead, alice
    ):
        mine = self.card(root, clerk, team)
        foreign = self.card(root, clerk, other_team)
        assert [card.pk for card in rate_cards(lead)] == [mine.pk]
        assert get_rate_card(lead, mine.pk) == mine
        for pk in (foreign.pk, 999_999):
            with pytest.raises(NotFound):
                get_rate_card(lead, pk)
        assert rates_of_cards(lead, [mine])[mine.pk][0].price_per_gpu_hour == 5
        assert {card.pk for card in rate_cards(clerk)} == {mine.pk, foreign.pk}

    def test_a_team_below_a_card_does_not_move_away_from_it(self, root, clerk, team, other_team):
        below = create_team(actor=root, name="Below", parent=team)
        self.card(root, clerk, team)
        with pytest.raises(Conflict, match="other prices"):
            move_team(actor=root, team=below, parent=other_team)
        move_team(actor=root, team=team, parent=other_team)

    def test_a_declined_card_prices_nothing(self, root, clerk, team, soon):
        card = draft_card(actor=clerk, name="Own", team=team)
        held_rate = propose_rate(
            actor=clerk, device_model="", price_per_gpu_hour=Decimal(1), valid_from=soon, card=card
        )
        decline_card(actor=root, card=card)
        held_rate.refresh_from_db()
        assert held_rate.decision == RateDecision.DECLINED
        with pytest.raises(Conflict, match="no rates"):
            propose_rate(actor=clerk, device_model="", price_per_gpu_hour=Decimal(1), card=card)


def test_the_quick_look_up_and_the_ledger_find_the_same_price(root, team, other_team):
    """One rule, two readers: 200 random lists, each at 60 moments for four payers."""
    below = create_team(actor=root, name="Below", parent=team)
    ways = {f"team:{one.pk}": (f"team:{one.pk}",) for one in (team, other_team)}
    ways[f"team:{below.pk}"] = (f"team:{below.pk}", f"team:{team.pk}")
    cards = {1: team.pk, 2: below.pk, 3: other_team.pk}
    second = int(NOON.timestamp())
    for seed in range(200):
        chance = random.Random(seed)
        rates, listed = [], []
        for number in range(1, 12):
            card, begin = chance.choice((0, 0, 1, 2, 3)), chance.randrange(30)
            until = chance.choice((None, begin + chance.randrange(1, 20)))
            model, priority = chance.choice(("H100", "", "A")), chance.choice((0, 0, 1))
            rates.append(
                Rate(
                    pk=number,
                    card_id=card or None,
                    device_model=model,
                    price_per_gpu_hour=Decimal(number),
                    valid_from=at(begin),
                    valid_until=None if until is None else at(until),
                    priority=priority,
                )
            )
            ends = None if until is None else second + until
            of = f"team:{cards[card]}" if card else ""
            listed.append(
                Price(
                    str(number), model, "", Decimal(number), "EUR", second + begin, ends,
                    priority, of,
                )
            )  # fmt: skip
        table, ledger = RateTable(rates, cards), PriceList(listed, ways)
        for who in (None, team, below, other_team):
            account = f"team:{who.pk}/project:1" if who else ""
            for moment in range(-1, 59):
                rate = table.at("H100", at(moment), who.pk if who else None)
                price = ledger.at("H100", ChargeKind.RUN, second + moment, account)
                assert (rate and str(rate.pk)) == (price and price.id), (seed, moment, account)


def test_rates_without_a_team_card_are_one_query(root, clerk, team, django_assert_num_queries):
    held(root, clerk, "1", timezone.now() + HOUR)
    assert RateCard.objects.get().team is None
    with django_assert_num_queries(1):
        table = rates_over(["H100"])
        table.at("H100", timezone.now() + 2 * HOUR, team.pk)
