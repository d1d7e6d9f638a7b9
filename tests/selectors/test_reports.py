"""Reports of the books tie to the ledger, and show nobody what is not theirs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from accounts.errors import Conflict, Forbidden, NotFound
from scheduler.ledger.segments import Bucket
from scheduler.selectors.books import reports
from scheduler.services import books
from tests.scenes import at
from tests.services.test_books import clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


@pytest.fixture
def closed(root, clerk, yard, project):
    adjustment = books.propose_adjustment(
        actor=clerk, project=project, amount=Decimal("-0.333"), reason="sorry", now=at(5)
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=at(6))
    return close(root)


def test_a_summary_ties_to_ledger_and_statements(root, closed, project):
    rows, checks = reports.period_summary(root, "2026-11")
    assert len(checks) == 3 and reports.holding(checks)
    (mine,) = [r for r in rows if r.account.endswith(f"project:{project.pk}")]
    assert mine.by_kind == {"run-guaranteed": Decimal("7.2"), "adjustment": Decimal("-0.333")}
    assert (mine.gpu_seconds, mine.total) == (7_200, Decimal("6.867"))


def test_a_check_compares_to_the_last_digit():
    wrong = reports.Check("a = b", Decimal("1.00"), Decimal("1.000000000000001"))
    assert not reports.holding([wrong])
    assert reports.holding([reports.Check("a = b", Decimal("1.00"), 1)])


def test_a_statement_is_its_lines(root, closed, team, lead, finance):
    for viewer in (root, lead, finance):
        rows, checks = reports.team_statement(viewer, team, "2026-11")
        assert [(r.kind, r.units) for r in rows] == [("adjustment", -33), ("usage", 720)]
        assert len(checks) == 2 and reports.holding(checks)


def test_a_statement_is_for_the_teams_own(closed, team, carol, alice):
    for viewer in (carol, alice):
        with pytest.raises(NotFound):
            reports.team_statement(viewer, team, "2026-11")


def test_an_open_month_has_no_statement(root, yard, team):
    with pytest.raises(Conflict, match="not closed"):
        reports.team_statement(root, team, "2026-11")


def test_capacity_is_the_identity_day_by_day(root, operator, yard):
    rows, checks = reports.capacity(operator, "2026-11")
    assert len(checks) == 2 and reports.holding(checks)
    # Two cards from noon of the 20th to the end of the month.
    assert len(rows) == 11
    assert rows[0].seconds == {Bucket.RUN: 3 * 3_600, Bucket.FREE: 2 * 43_200 - 3 * 3_600}
    assert {row.rolled.in_service for row in rows[1:]} == {2 * 86_400}


def test_the_books_are_not_for_everybody(closed, alice, lead):
    for viewer in (alice, lead):
        with pytest.raises(Forbidden):
            reports.period_summary(viewer, "2026-11")
        with pytest.raises(Forbidden):
            reports.capacity(viewer, "2026-11")
