"""Every page of money with twelve months of history: how often it asks, and how long it is."""

from __future__ import annotations

from copy import copy
from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from accounts.models import Rate
from portal.bench.money.repeating import lengthen, repeat_month
from portal.bench.money.visits import look, pages_of_money
from scheduler.ledger.periods import Month
from scheduler.models import Adjustment, Period, QuotaRequest, RequestVersion
from scheduler.services import books
from scheduler.services.sharing.budgets import set_budget
from tests import requesting
from tests.selectors.test_reports import closed
from tests.services.test_books import clerk, yard

pytestmark = [pytest.mark.django_db, pytest.mark.once]
__all__ = ["clerk", "closed", "yard"]
MONTH = Month.parse("2026-11")
MANY = 250


def many(row, change, count=MANY):
    """The same row so many times, each with what `change` makes of it."""
    made = []
    for number in range(1, count + 1):
        other = copy(row)
        other.pk = None
        change(other, timedelta(days=number))
        made.append(other)
    return type(row).objects.bulk_create(made)


def shifted(*names):
    def change(row, by):
        for name in names:
            setattr(row, name, getattr(row, name) - by)

    return change


def test_a_year_of_history_makes_no_page_of_money_longer_than_it_may_be(
    client, root, clerk, alice, lead, project, team, yard, closed
):
    client.force_login(root)
    now = timezone.now()
    asked = requesting.ask(alice, project, now=now)
    times = {"valid_from": now - timedelta(hours=1), "valid_until": now + timedelta(hours=20)}
    budget = set_budget(actor=root, owner=team, gpu_hours=9, **times)
    bought = {"name": "cards", "paid": Decimal(9000), "since": date(2026, 11, 1), "months": 36}
    asset = books.propose_asset(actor=clerk, pool=yard.pool, **bought)
    repeat_month(MONTH, 12)
    lengthen(MONTH, 400)
    many(Rate.objects.get(), shifted("valid_from"))
    many(budget, shifted("valid_from", "valid_until"))
    many(asset, shifted("since"))
    many(Adjustment.objects.get(), lambda row, by: setattr(row, "entry", None))
    text = asked.versions.get()
    versions = []
    for request in many(asked, shifted("touched_at")):
        versions.append(copy(text))
        versions[-1].pk, versions[-1].request = None, request
    RequestVersion.objects.bulk_create(versions)
    assert (Period.objects.count(), QuotaRequest.objects.count()) == (12, MANY + 1)
    dear = {}
    for page in pages_of_money(root, MONTH):
        count, size = look(client, page)
        if count > page.sql or size > page.kib:
            dear[page.name] = (count, page.sql, size, page.kib)
    assert not dear
