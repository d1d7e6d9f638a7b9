"""What a GPU-hour costs, from when on."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import Rate, RateDecision, RateKind
from accounts.permissions import can
from accounts.selectors.rates import (
    current_rates,
    list_rates_at,
    prices_in_force,
    proposed_rates,
    rate_at,
    rates_over,
)
from accounts.services import (
    appoint_bookkeeper,
    approve_rate,
    decline_rate,
    propose_rate,
    set_rate,
)
from scheduler.ledger.rating import ChargeKind
from scheduler.services.books.reading import price_list
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db


def _set(root, model, price, second=0.0, **more):
    more = {"valid_from": more.pop("at", None) or at(second), "restated_for": "as if then"} | more
    return set_rate(actor=root, device_model=model, price_per_gpu_hour=Decimal(price), **more)


def test_the_latest_price_at_a_moment_else_the_fallback(root):
    _set(root, "H100", "3.60", 0)
    _set(root, "H100", "4.00", 100)
    _set(root, "", "1.00", 50)
    prices = [rate_at("H100", at(s)) for s in (-1, 0, 99, 100, 10_000)]
    assert [p and p.price_per_gpu_hour for p in prices] == [
        None,
        Decimal("3.60"),
        Decimal("3.60"),
        Decimal("4.00"),
        Decimal("4.00"),
    ]
    assert rate_at("A100", at(49)) is None
    assert rate_at("A100", at(50)).price_per_gpu_hour == Decimal("1.00")
    assert [r.price_per_gpu_hour for r in current_rates(now=at(60))] == [
        Decimal("1.00"),
        Decimal("3.60"),
    ]


def test_in_force_is_one_price_of_each_model_and_kind_of_time(root, django_assert_num_queries):
    _set(root, "H100", "3.60", 0)
    _set(root, "H100", "4.00", 100)
    _set(root, "H100", "9.00", 500)
    _set(root, "H100", "2.10", 10, kind=RateKind.BORROWED)
    _set(root, "H100", "1.00", 20, kind=RateKind.BORROWED, priority=1, valid_until=at(150))
    _set(root, "", "1.20", 0)
    with django_assert_num_queries(1):
        found = prices_in_force(now=at(120))
    shown = [(one.device_model, one.kind, one.price_per_gpu_hour) for one in found]
    assert shown == [
        ("", "", Decimal("1.20")),
        ("H100", "", Decimal("4.00")),
        ("H100", "run-borrowed", Decimal("1.00")),
    ]
    assert prices_in_force(now=at(150))[-1].price_per_gpu_hour == Decimal("2.10")
    assert prices_in_force(now=at(-1)) == []
    assert [str(one) for one in found][:2] == ["any device: 1.20 EUR/h", "H100: 4.00 EUR/h"]


def test_many_look_ups_are_one_query(root, django_assert_num_queries):
    for number in range(5):
        _set(root, f"M{number}", str(number))
    with django_assert_num_queries(1):
        table = rates_over(f"M{n}" for n in range(5))
        assert [table.at(f"M{n}", NOON).price_per_gpu_hour for n in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("who", ["alice", "lead", "finance", "operator"])
def test_only_administrators_set_prices(request, who):
    with pytest.raises(Forbidden):
        _set(request.getfixturevalue(who), "H100", "1")
    assert not Rate.objects.exists()


@pytest.mark.parametrize("price", ["-0.01", "NaN", "Infinity", "100001", "1.0000001", "1e-20"])
def test_prices_that_make_no_sense(root, price):
    with pytest.raises(Invalid) as refused:
        _set(root, "H100", price)
    assert refused.value.field == "price_per_gpu_hour"


@pytest.mark.parametrize("currency", ["", "eur", "EURO", "€", "E1R"])
def test_currencies_are_three_letters(root, currency):
    with pytest.raises(Invalid) as refused:
        _set(root, "H100", "1", currency=currency)
    assert refused.value.field == "currency"


@pytest.mark.parametrize("model", ["a\x00b", "x" * 97, "a\nb"])
def test_models_are_one_short_line(root, model):
    with pytest.raises(Invalid) as refused:
        _set(root, model, "1")
    assert refused.value.field == "device_model"


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_one_price_for_a_moment_and_none_for_the_past_by_the_way(root, ahead_s):
    moment = timezone.now() + timedelta(seconds=ahead_s)
    word = "the first price here" if ahead_s < 0 else ""
    _set(root, "H100", "1", at=moment, restated_for=word)
    with pytest.raises(Invalid) as refused:
        _set(root, "H100", "2", at=moment, restated_for="")
    assert refused.value.field == "valid_from"
    rate = Rate.objects.get()
    assert (rate.price_per_gpu_hour, rate.is_restatement) == (1, ahead_s < 0)
    assert rate.reason == word


def test_the_ledger_takes_the_restated_price_whatever_the_numbers_of_both(root):
    for pk, price in ((9, "2"), (10, "3")):
        rate = _set(root, "H100", price, at=NOON)
        Rate.objects.filter(pk=rate.pk).update(id=pk)
    second = math.ceil(NOON.timestamp())
    assert price_list().at("H100", ChargeKind.RUN, second).id == "10"
    assert rate_at("H100", NOON).pk == 10


class TestSecondPerson:
    """A price of two people: one proposes, the other approves."""

    @pytest.fixture
    def clerk(self, root, finance):
        appoint_bookkeeper(actor=root, user=finance)
        return finance

    def propose(self, actor, price="2", **more):
        more.setdefault("valid_from", timezone.now() + timedelta(hours=1))
        return propose_rate(
            actor=actor, device_model="H100", price_per_gpu_hour=Decimal(price), **more
        )

    def test_a_proposal_prices_nothing_before_it_is_approved(self, root, clerk):
        rate = self.propose(clerk)
        later = rate.valid_from + timedelta(hours=1)
        assert rate_at("H100", later) is None
        assert list(proposed_rates(root)) == [rate]
        approve_rate(actor=root, rate=rate)
        found = rate_at("H100", later)
        assert (found.price_per_gpu_hour, found.proposed_by, found.decided_by) == (2, clerk, root)

    def test_nobody_approves_their_own(self, clerk):
        rate = self.propose(clerk)
        with pytest.raises(Forbidden, match="another person"):
            approve_rate(actor=clerk, rate=rate)

    def test_a_decision_is_taken_once(self, root, clerk):
        rate = self.propose(clerk)
        decline_rate(actor=root, rate=rate)
        with pytest.raises(Conflict, match="declined"):
            approve_rate(actor=root, rate=rate)
        # A declined proposal does not stand in the way of the next one.
        assert self.propose(clerk, "3", valid_from=rate.valid_from).pk != rate.pk

    def test_an_administrator_alone_sets_prices_at_once_with_another_person_proposes(
        self, root, finance
    ):
        assert _set(root, "A", "1").decision == RateDecision.APPROVED
        appoint_bookkeeper(actor=root, user=finance)
        assert _set(root, "B", "1").decision == RateDecision.PROPOSED
        appoint_bookkeeper(actor=root, user=finance, keeps=False)
        assert _set(root, "C", "1").decision == RateDecision.APPROVED

    def test_the_past_is_priced_only_by_a_restatement_with_a_reason(self, root, clerk):
        past = timezone.now() - timedelta(days=40)
        with pytest.raises(Invalid, match="restate"):
            self.propose(clerk, valid_from=past)
        with pytest.raises(Invalid, match="why"):
            self.propose(clerk, valid_from=past, restate=True)
        _set(root, "X", "1")
        rate = self.propose(clerk, valid_from=past, restate=True, reason="wrong contract")
        assert approve_rate(actor=root, rate=rate).valid_from == past

    def test_of_two_prices_for_a_moment_the_restated_one_holds(self, root, clerk):
        first = self.propose(clerk, "2")
        approve_rate(actor=root, rate=first)
        with pytest.raises(Invalid, match="already"):
            self.propose(clerk, "3", valid_from=first.valid_from)
        second = self.propose(
            clerk, "3", valid_from=first.valid_from, restate=True, reason="mistyped"
        )
        approve_rate(actor=root, rate=second)
        assert rate_at("H100", first.valid_from).price_per_gpu_hour == 3

    def test_of_two_restated_prices_the_later_decision_holds_whichever_was_proposed_first(
        self, root, clerk
    ):
        past = {"valid_from": NOON, "restate": True, "reason": "x"}
        first, second = (self.propose(clerk, price, **past) for price in ("2", "3"))
        approve_rate(actor=root, rate=second)
        second_s = math.ceil(NOON.timestamp())
        # What it would move is shown as it then comes.
        shown = price_list(also=first).at("H100", ChargeKind.RUN, second_s)
        approve_rate(actor=root, rate=first)
        held = price_list().at("H100", ChargeKind.RUN, second_s)
        assert shown.id == held.id == str(first.pk)
        assert rate_at("H100", NOON) == first

    def test_a_proposal_that_waited_too_long_holds_from_its_approval_on(self, root, clerk):
        rate = self.propose(clerk)
        late = rate.valid_from + timedelta(days=2)
        assert approve_rate(actor=root, rate=rate, now=late).valid_from == late

    @pytest.mark.parametrize("who", ["alice", "lead", "finance", "operator"])
    def test_others_do_not_keep_the_books(self, request, root, who):
        person = request.getfixturevalue(who)
        with pytest.raises(Forbidden):
            self.propose(person)
        with pytest.raises(Forbidden):
            appoint_bookkeeper(actor=person, user=person)
        assert not proposed_rates(person).exists()
        assert not can(person, "keep_books", None)

    def test_a_particular_kind_leaves_the_general_price_alone(self, root, clerk):
        rate = self.propose(clerk, kind=RateKind.IDLE_SHARE)
        approve_rate(actor=root, rate=rate)
        assert rate_at("H100", rate.valid_from) is None
        with pytest.raises(Invalid, match="kind"):
            self.propose(clerk, kind="other")


def test_the_list_has_a_price_where_a_look_up_finds_one(root):
    for second in (0, 60):
        assert list_rates_at(at(second)).exists() == bool(current_rates(now=at(second)))
    _set(root, "H100", "3.60", 50)
    assert [list_rates_at(at(second)).exists() for second in (49, 50)] == [False, True]
    for second in (49, 50):
        assert list_rates_at(at(second)).exists() == bool(current_rates(now=at(second)))


def test_prices_of_one_model_are_those_of_the_same_among_many(root, django_assert_num_queries):
    for number, model in enumerate(("", "H100", "B200")):
        _set(root, model, str(number + 1))
    for model in ("H100", "B200", "L4", ""):
        with django_assert_num_queries(1):
            alone = rates_over([model])
        among = rates_over([model, "H100", "B200"])
        found = [table.at(model, NOON).price_per_gpu_hour for table in (alone, among)]
        assert found[0] == found[1] == {"H100": 2, "B200": 3}.get(model, 1)
