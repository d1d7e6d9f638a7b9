"""Rates end, follow one another, and go before others."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import AuditEvent, Rate, RateEnding
from accounts.services import (
    appoint_bookkeeper,
    approve_card,
    approve_end,
    approve_rate,
    create_team,
    decline_card,
    decline_end,
    decline_rate,
    draft_card,
    move_team,
    propose_card,
    propose_end,
    propose_rate,
    set_rate,
)
from tests import factories
from tests.accounts.pricing import HOUR, ended, held, prices

pytestmark = pytest.mark.django_db


@pytest.fixture
def clerk(root, finance):
    appoint_bookkeeper(actor=root, user=finance)
    return finance


@pytest.fixture
def soon():
    return timezone.now() + HOUR


class TestEnds:
    def test_the_next_rate_ends_the_last_and_is_ended_by_one_to_come(self, root, clerk, soon):
        first = held(root, clerk, "1", soon)
        last = held(root, clerk, "3", soon + 20 * HOUR)
        between = held(root, clerk, "2", soon + 10 * HOUR)
        first.refresh_from_db()
        assert (first.valid_until, between.valid_until) == (between.valid_from, last.valid_from)
        assert last.valid_until is None
        assert prices(soon, -1, 0, 9, 10, 19, 20, 999) == [None, 1, 1, 2, 2, 3, 3]
        assert AuditEvent.objects.filter(action="rate.end").count() == 2

    def test_a_rate_for_a_time_needs_a_higher_priority_and_then_goes_first(self, root, clerk, soon):
        held(root, clerk, "1", soon)
        brief = {"begin": soon + 5 * HOUR, "valid_until": soon + 8 * HOUR}
        with pytest.raises(Invalid, match="higher priority") as refused:
            held(root, clerk, "2", **brief)
        assert refused.value.field == "valid_until"
        held(root, clerk, "2", **brief, priority=1)
        assert prices(soon, 4, 5, 7, 8) == [1, 2, 2, 1]
        with pytest.raises(Invalid, match="higher priority"):
            held(root, clerk, "3", soon + 6 * HOUR, valid_until=soon + 99 * HOUR, priority=1)

    @pytest.mark.parametrize("after_s", [0, -60])
    def test_an_end_comes_after_the_begin(self, clerk, soon, after_s):
        with pytest.raises(Invalid) as refused:
            propose_rate(
                actor=clerk,
                device_model="",
                price_per_gpu_hour=Decimal(1),
                valid_from=soon,
                valid_until=soon + timedelta(seconds=after_s),
            )
        assert refused.value.field == "valid_until"
        assert not Rate.objects.exists()

    def test_ending_says_when_a_gap_begins_and_nothing_comes_back(self, root, clerk, soon):
        past = {"restate": True, "reason": "first"}
        held(root, clerk, "1", soon - 48 * HOUR, **past)
        rate = held(root, clerk, "2", soon)
        done = ended(clerk, root, rate=rate, valid_until=soon + 5 * HOUR)
        assert "Nothing then prices H100" in done.outcome
        assert prices(soon, -1, 0, 4, 5, 99) == [1, 2, 2, None, None]
        with pytest.raises(Conflict, match="ends on"):
            propose_end(actor=clerk, rate=rate, valid_until=soon + 6 * HOUR)
        held(root, clerk, "9", soon - 48 * HOUR, model="", **past)
        done = ended(clerk, root, rate=rate, valid_until=soon + 4 * HOUR)
        assert "pays by the list" in done.outcome and "Nothing" not in done.outcome
        idle = held(root, clerk, "3", soon, kind="reserved-idle")
        done = ended(clerk, root, rate=idle, valid_until=soon + 4 * HOUR)
        assert "Nothing then prices H100 (reserved and not used)" in done.outcome

    def test_a_price_that_began_later_stays_when_a_restated_one_ends(self, root, clerk, soon):
        past = {"restate": True, "reason": "contract"}
        later = held(root, clerk, "2", soon - 24 * HOUR, **past)
        restated = held(root, clerk, "1", soon - 48 * HOUR, **past)
        ended(clerk, root, rate=restated, valid_until=soon + 5 * HOUR)
        later.refresh_from_db()
        assert later.valid_until is None
        assert prices(soon, 4, 5, 99) == [2, 2, 2]

    def test_of_two_restated_from_one_moment_the_one_that_holds_stays(self, root, clerk, soon):
        begin, past = soon - 24 * HOUR, {"restate": True, "reason": "contract"}
        first, last = (held(root, clerk, price, begin, **past) for price in ("1", "2"))
        ended(clerk, root, rate=first, valid_until=soon + 5 * HOUR)
        assert prices(soon, 4, 5, 99) == [2, 2, 2]
        again = held(root, clerk, "1", begin, **past)
        ended(clerk, root, rate=again, valid_until=soon + 6 * HOUR)
        last.refresh_from_db()
        assert last.valid_until == soon + 6 * HOUR
        assert prices(soon, 5, 6) == [1, None]

    def test_only_an_end_to_come_may_be_set_and_only_by_who_keeps_the_books(
        self, root, clerk, alice, soon
    ):
        rate = held(root, clerk, "1", soon - 48 * HOUR, restate=True, reason="first")
        with pytest.raises(Invalid, match="has passed"):
            propose_end(actor=clerk, rate=rate, valid_until=soon - 3 * HOUR)
        with pytest.raises(Forbidden):
            propose_end(actor=alice, rate=rate, valid_until=soon)
        proposal = propose_rate(
            actor=clerk, device_model="A", price_per_gpu_hour=Decimal(1), valid_from=soon
        )
        with pytest.raises(Conflict, match="proposed"):
            propose_end(actor=clerk, rate=proposal, valid_until=soon + HOUR)
        with pytest.raises(Invalid, match="no end"):
            propose_end(actor=clerk, card=rate.card)
        rate.refresh_from_db()
        assert rate.valid_until is None
        assert not RateEnding.objects.exists()

    def test_an_end_needs_a_second_person_and_is_proposed_once(self, root, clerk, alice, soon):
        rate = held(root, clerk, "1", soon)
        until = soon + 5 * HOUR
        ending = propose_end(actor=clerk, rate=rate, valid_until=until)
        assert prices(soon, 6) == [1]
        with pytest.raises(Forbidden, match="another person"):
            approve_end(actor=clerk, ending=ending)
        with pytest.raises(Forbidden):
            decline_end(actor=alice, ending=ending)
        with pytest.raises(Conflict, match="proposed this end already"):
            propose_end(actor=root, rate=rate, valid_until=until)
        decline_end(actor=clerk, ending=ending)
        assert prices(soon, 6) == [1]
        ended(clerk, root, rate=rate, valid_until=until)
        assert prices(soon, 4, 5) == [1, None]
        said = AuditEvent.objects.filter(action__endswith="_end").order_by("id")
        words = ["propose", "decline", "propose", "approve"]
        assert [one.action for one in said] == [f"rate.{word}_end" for word in words]

    def test_who_keeps_the_books_alone_ends_at_once(self, root, soon):
        rate = set_rate(actor=root, device_model="H100", price_per_gpu_hour=Decimal(1))
        done = propose_end(actor=root, rate=rate)
        assert (done.decision, done.decided_by) == ("approved", root)
        assert prices(soon, 0) == [None]

    def test_a_card_ends_whole_and_says_who_pays_by_what(self, root, clerk, team, soon):
        below = create_team(actor=root, name="Below", slug="below")
        move_team(actor=root, team=below, parent=team)
        card = draft_card(actor=clerk, name="Own", team=team)
        for model, begin in (("H100", 0), ("B200", 0), ("H100", 9)):
            propose_rate(
                actor=clerk,
                device_model=model,
                price_per_gpu_hour=Decimal(5),
                valid_from=soon + begin * HOUR,
                card=card,
            )
        approve_card(actor=root, card=propose_card(actor=clerk, card=card))
        held(root, clerk, "2", soon)
        ending = propose_end(actor=clerk, card=card, valid_until=soon + 3 * HOUR)
        assert prices(soon, 2, 3, 10, team=below) == [5, 5, 5]
        done = approve_end(actor=root, ending=ending)
        assert f"Team {team.slug}, with below below it, then pays by the list: H100" in done.outcome
        assert "Nothing then prices B200" in done.outcome
        for one in (team, below):
            assert prices(soon, 2, 3, 10, team=one) == [5, 2, 2]
        card.refresh_from_db()
        assert card.valid_until == soon + 3 * HOUR
        assert set(card.rates.values_list("decision", flat=True)) == {"approved", "declined"}
        with pytest.raises(Conflict, match="ends on"):
            propose_end(actor=clerk, card=card, valid_until=soon + 4 * HOUR)
        # From then on the team may have another card.
        draft_card(actor=clerk, name="Next", team=team, valid_from=soon + 3 * HOUR)

    def test_of_two_who_decide_the_second_is_told_who_was_faster(self, root, clerk, team, soon):
        """Whatever the second holds in hand was read before the first decided."""
        third = factories.person("third")
        appoint_bookkeeper(actor=root, user=third)
        ask = {"actor": clerk, "device_model": "H100", "price_per_gpu_hour": Decimal(1)}
        rate = propose_rate(**ask, valid_from=soon)
        card = draft_card(actor=clerk, name="Own", team=team)
        propose_rate(**ask, valid_from=soon, card=card)
        propose_card(actor=clerk, card=card)
        approve_rate(actor=third, rate=rate)
        ending = propose_end(actor=clerk, rate=rate, valid_until=soon + HOUR)
        approve_card(actor=third, card=card)
        approve_end(actor=third, ending=ending)
        late = (
            lambda: approve_rate(actor=root, rate=rate),
            lambda: decline_rate(actor=root, rate=rate),
            lambda: decline_card(actor=root, card=card),
            lambda: decline_end(actor=root, ending=ending),
        )
        events = AuditEvent.objects.count()
        for act in late:
            with pytest.raises(Conflict, match="was faster") as refused:
                act()
            assert refused.value.facts == {"decision": "approved", "decided_by": "third"}
        assert AuditEvent.objects.count() == events

    def test_postgres_holds_no_overlap_whoever_writes_it(self, root, clerk, soon):
        rate = held(root, clerk, "1", soon)
        twin = Rate(
            card=rate.card,
            device_model="H100",
            price_per_gpu_hour=Decimal(2),
            valid_from=soon + HOUR,
        )
        if connection.vendor != "postgresql":
            with pytest.raises(Invalid, match="holds in this time"):
                held(root, clerk, "2", soon + HOUR, valid_until=soon + 2 * HOUR)
            return
        with pytest.raises(IntegrityError), transaction.atomic():
            twin.save()
        twin.priority = 1
        twin.save()
