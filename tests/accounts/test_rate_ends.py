"""Rates end, follow one another, and go before others."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid
from accounts.models import AuditEvent, Rate
from accounts.services import (
    appoint_bookkeeper,
    end_rate,
    propose_rate,
)
from tests.accounts.pricing import HOUR, held, prices

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
        assert end_rate(actor=clerk, rate=rate, valid_until=soon + 5 * HOUR).leaves_gap
        assert prices(soon, -1, 0, 4, 5, 99) == [1, 2, 2, None, None]
        with pytest.raises(Conflict, match="ends on"):
            end_rate(actor=clerk, rate=rate, valid_until=soon + 6 * HOUR)
        held(root, clerk, "9", soon - 48 * HOUR, model="", **past)
        assert not end_rate(actor=clerk, rate=rate, valid_until=soon + 4 * HOUR).leaves_gap

    def test_only_an_end_to_come_may_be_set_and_only_by_who_keeps_the_books(
        self, root, clerk, alice, soon
    ):
        rate = held(root, clerk, "1", soon - 48 * HOUR, restate=True, reason="first")
        with pytest.raises(Invalid, match="has passed"):
            end_rate(actor=clerk, rate=rate, valid_until=soon - 3 * HOUR)
        with pytest.raises(Forbidden):
            end_rate(actor=alice, rate=rate, valid_until=soon)
        proposal = propose_rate(
            actor=clerk, device_model="A", price_per_gpu_hour=Decimal(1), valid_from=soon
        )
        with pytest.raises(Conflict, match="proposed"):
            end_rate(actor=clerk, rate=proposal, valid_until=soon + HOUR)
        rate.refresh_from_db()
        assert rate.valid_until is None

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
