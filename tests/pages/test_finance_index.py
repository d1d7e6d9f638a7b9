"""The first page of finance, and trying a close before it is done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.models import Rate
from scheduler.models import LedgerEntry, Period, UsageLine
from scheduler.services import books
from scheduler.services.books import try_period
from scheduler.services.sharing.budgets import BudgetRules, set_budget
from tests.selectors.test_reports import closed
from tests.services.test_books import DECEMBER, LATER, clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]


def test_the_index_has_months_checks_and_reports(client, root, alice, closed):
    client.force_login(root)
    page = client.get("/finance/").content.decode()
    assert "10.47 EUR" in page and "Reconciliation" in page and "/finance/focus/" in page
    client.force_login(alice)
    page = client.get("/finance/").content.decode()
    assert "10.47" not in page and "/finance/focus/" not in page and "Job cost" in page


def test_the_index_says_whose_bill_moved_and_which_budget_runs_out(
    client, root, clerk, alice, project, team, closed
):
    """December's bill of one job beside November's, by team; the budget that is nearest its end."""
    begin = datetime.now(tz=UTC) - timedelta(days=2)
    set_budget(
        actor=root,
        owner=team,
        gpu_hours=40,
        valid_from=begin,
        valid_until=begin + timedelta(days=9),
        rules=BudgetRules(),
    )
    client.force_login(root)
    first = client.get("/finance/")
    assert list(first.context["movers"]) == []
    assert [(burn.owner, burn.unit) for burn in first.context["burning"]] == [
        (team.slug, "GPU-hours")
    ]
    books.close_period(actor=root, period="2026-12", now=LATER)
    page = client.get("/finance/")
    (mover, _) = page.context["movers"]
    assert (mover.account, str(mover.before), str(mover.after)) == (team.slug, "6.87", "0.00")
    assert mover.percent == -100 and "2026-11 to 2026-12" in page.content.decode()
    client.force_login(alice)
    assert not client.get("/finance/").context["movers"]


def test_closing_is_tried_before_it_is_done(client, root, yard, monkeypatch):
    """The trial says what the close says, counts the same, and writes nothing."""
    client.force_login(root)
    rows = (LedgerEntry.objects.count(), UsageLine.objects.count(), Period.objects.count())
    trial = try_period(actor=root, period="2026-11", now=DECEMBER)
    assert (trial.blocked, trial.used, trial.hours) == ((), Decimal("10.8"), 3)
    assert (LedgerEntry.objects.count(), UsageLine.objects.count(), Period.objects.count()) == rows
    assert try_period(actor=root, period="2026-12", now=LATER).blocked[0].trouble == "earlier_open"
    said = client.post("/finance/periods/2026-11/check/").content.decode()
    assert "Closing 2026-11 now" in said
    Rate.objects.all().delete()
    assert "It would be refused" in client.post("/finance/periods/2026-11/check/").content.decode()
    assert client.post("/finance/periods/2026-1/check/").status_code == 404
    assert Period.objects.count() == rows[2]


def test_the_index_says_that_there_are_older_months(client, root, alice):
    for number in range(24):
        Period.objects.create(name=f"{2024 + number // 12}-{number % 12 + 1:02d}")
    client.force_login(root)
    assert "All months" not in client.get("/finance/").content.decode()
    Period.objects.create(name="2023-12")
    page = client.get("/finance/")
    assert "All months" in page.content.decode() and "2023-12" not in page.content.decode()
    client.force_login(alice)
    page = client.get("/finance/").content.decode()
    assert "Who keeps the books sees all months" in page and "All months" not in page
