"""What a pool has cost beyond its prices, wherever it is shown."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from portal.reports.books.cells import short_text
from scheduler.ledger.focus.rules import check
from scheduler.models import Attempt
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.focus import focus_rows
from scheduler.selectors.books.frame import Ask
from scheduler.selectors.books.papers import paper_of
from scheduler.selectors.books.spending import all_together, recovery
from scheduler.services import books
from scheduler.states import EndReason
from tests.services.test_books import DECEMBER, LATER, close, yard
from tests.services.test_spending import bought

pytestmark = pytest.mark.django_db
__all__ = ["yard"]


def test_what_was_missing_to_a_pools_cost_is_of_the_pool_and_of_no_gpu(root, yard, team):
    bought(root, yard.pool)
    books.propose_terms(actor=root, pool=yard.pool, recovery="cost")
    closed = close(root)
    number = closed.statements.get(account=f"team:{team.pk}").number
    lines = [line for part in paper_of(root, number).projects for line in part.lines]
    (missing,) = (line for line in lines if line.kind == "cost_recovery")
    assert (missing.flavour, missing.meter) == ("pool default", "cost-recovery")
    sku = f"{yard.pool.pk}:cost-recovery"
    assert short_text("sku", sku) == f"pool {yard.pool.pk}, cost recovery"
    _, sheet = open_report(root, "rate-variance", Ask("2026-11"))
    assert sku not in {row.cells[0] for row in sheet.rows(0)}
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    books.correct_period(actor=root, period="2026-11", reason="lost", now=DECEMBER)
    close(root, "2026-12", now=LATER)
    table = list(focus_rows(root, "2026-12"))
    rows = [dict(zip(table[0], row, strict=True)) for row in table[1:]]
    assert list(check(table[0], rows, "1.2")) == []
    corrected = {(row["ChargeCategory"], row["SkuMeter"]) for row in rows if row["ChargeClass"]}
    assert corrected == {("Usage", "run-guaranteed"), ("Adjustment", "")}


def test_a_pool_without_any_cost_is_named_and_several_are_added_up(client, root, yard):
    """What was charged for it is no gain; of all together it is said what came back."""
    close(root)
    client.force_login(root)
    answer = client.get("/finance/costs/")
    page = answer.content.decode()
    assert "No cost was booked in 2026-11 for" in page and answer.context["uncosted"] == ["default"]
    assert "All pools together" not in page
    (row,) = recovery(root)
    costly = replace(row, pool="other", cost=Decimal(8), variance=Decimal("2.8"))
    both = all_together([row, costly])
    assert both is not None and all_together([row]) is None
    assert (both.cost, both.charged) == (Decimal(8), 2 * row.charged)
    assert (both.variance, both.percent) == (2 * row.charged - 8, row.charged * 25)


def test_a_pool_that_has_cost_something_is_not_named(client, root, yard):
    bought(root, yard.pool)
    close(root)
    client.force_login(root)
    assert "No cost was booked in" not in client.get("/finance/costs/").content.decode()
