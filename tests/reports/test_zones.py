"""F14: whatever zone times are shown in, seconds are counted and totals tie in UTC."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from scheduler.models import LedgerEntry, UsageLine
from scheduler.services import books
from tests import scenes
from tests.reports.test_report_files import content

pytestmark = pytest.mark.django_db
LATER = datetime(2026, 12, 2, 9, tzinfo=UTC)
HOUR_S = 3600
# The day on which Europe's clocks go back (25 hours there), and one that ends the month.
RUNS = (
    (datetime(2026, 10, 24, 21, 0, tzinfo=UTC), 29 * HOUR_S),
    (datetime(2026, 10, 31, 20, 30, tzinfo=UTC), 7 * HOUR_S),
)
ZONES = ("Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati")
SLUGS = ("team-statement", "job-cost", "period-summary")


@pytest.fixture
def october(root, alice, project):
    """One card since 24 October; both runs are of alice, the second one goes on in November."""
    cluster = scenes.build_cluster(root, nodes=1, gpus=1)
    card = scenes.add_node(cluster, "n9", 1, now=RUNS[0][0] - timedelta(hours=1))
    for begin, seconds in RUNS:
        attempt = scenes.start(scenes.submit(alice, project, now=begin), card, now=begin)
        scenes.sync(card, scenes.running(attempt), now=begin)
        scenes.sync(card, scenes.ended(attempt), now=begin + timedelta(seconds=seconds))
    return cluster


def seconds_by_day() -> dict[str, int]:
    found: dict[str, int] = {}
    for day_s, seconds in UsageLine.objects.values_list("day_s", "gpu_seconds"):
        day = f"{datetime.fromtimestamp(day_s, UTC):%m-%d}"
        found[day] = found.get(day, 0) + seconds
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_days_and_months_are_those_of_utc_and_totals_tie(client, root, october, settings, zone):
    settings.TIME_ZONE = zone
    client.force_login(root)
    with timezone.override(zone):
        closed = books.close_period(actor=root, period="2026-10", now=LATER)
        assert seconds_by_day() == {
            "10-24": 3 * HOUR_S,
            "10-25": 24 * HOUR_S,
            "10-26": 2 * HOUR_S,
            "10-31": 12_600,
        }
        charged = Decimal(29 * HOUR_S + 12_600) / HOUR_S * Decimal("3.6")
        assert Decimal(closed.control) / 100 == charged
        assert sum(e.amount for e in LedgerEntry.objects.all()) == charged
        for slug in SLUGS:
            asked = {"period": "2026-10", "format": "csv"}
            text = content(client.get(f"/finance/reports/{slug}/", asked)).decode("utf-8-sig")
            rows = list(csv.DictReader(io.StringIO(text)))
            name = next(n for n in ("total", "amount", "charged", "billed") if n in rows[0])
            assert sum(Decimal(row[name]) for row in rows) == charged, slug
