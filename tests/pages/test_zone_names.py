"""What zones are called, and days that are those of UTC in all of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.serving.zones import _RENAMED, zone_of
from scheduler.services.sharing.budgets import set_budget

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_zone_is_called_as_it_is_now():
    """Chromium and Safari say Asia/Calcutta of India, and Europe/Kiev."""
    assert str(zone_of({"zone": "Asia/Calcutta"})) == "Asia/Kolkata"
    for old, new in _RENAMED.items():
        named = zone_of({"zone": old})
        assert str(named) in (old, new)
        assert NOON.astimezone(named).utcoffset() == NOON.astimezone(ZoneInfo(old)).utcoffset()


def test_days_of_budgets_are_those_of_utc_on_every_page(client, root, lead, project):
    now = timezone.now()
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(now.year + 2, 1, 1, tzinfo=UTC)
    endless = begin.replace(year=begin.year + 100)
    for until, owner in ((end, project.team), (endless, project)):
        set_budget(
            actor=root, owner=owner, valid_from=begin, valid_until=until, amount=Decimal(5), now=now
        )
    client.force_login(lead)
    client.cookies["zone"] = "America/St_Johns"
    for url in ("/", reverse("teams:board", args=[project.team.slug])):
        page = re.sub(r"<[^>]+>", "", client.get(url).content.decode())
        assert f"until 1 Jan {end.year} (UTC)" in page, url
        # A budget has to end; one that is to have none ends in a hundred years.
        assert str(endless.year) not in page, url
    assert "budget · no end" in client.get("/").content.decode()
    page = client.get(reverse("teams:quota", args=[project.team.slug])).content.decode()
    assert "no end</span>" in page and "lasts more than a year" in page
