"""Reports of the books tie to the ledger, and show nobody what is not theirs."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from accounts.errors import Forbidden, Invalid, NotFound
from accounts.models import Project, Team, User
from accounts.services import move_team, rename_team
from scheduler.models import Adjustment, Job, LedgerEntry, UsageLine
from scheduler.models.exact import ExactSum
from scheduler.selectors.books.catalogue import REPORTS, open_report, reports_for
from scheduler.selectors.books.frame import Ask, Bound, Check
from scheduler.selectors.books.slugs.rates import split
from scheduler.services import books
from scheduler.services.sharing.budgets import set_budget
from tests.scenes import at
from tests.services.test_books import LATER, clerk, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
NOVEMBER = "2026-11"
DECEMBER_1 = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def closed(root, clerk, yard, project):
    adjustment = books.propose_adjustment(
        actor=clerk, project=project, amount=Decimal("-0.333"), reason="sorry", now=at(5)
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=at(6))
    return close(root)


def opened(viewer, slug, **narrowed):
    """Rows as dictionaries, and the sheet."""
    report, sheet = open_report(viewer, slug, Ask(NOVEMBER, **narrowed))
    names = [column.name for column in report.columns]
    return [dict(zip(names, row.cells, strict=True)) for row in sheet.rows(0)], sheet


def test_every_report_ties_and_adds_up_to_its_totals(root, closed, alice):
    attempt = UsageLine.objects.exclude(attempt=None).values_list("attempt_id", flat=True).first()
    for slug, report in REPORTS.items():
        narrowed = {"attempt": attempt} if slug == "segments" else {}
        rows, sheet = opened(root, slug, **narrowed)
        assert sheet.checks, slug
        assert all(check.holds for check in sheet.checks), (slug, sheet.checks)
        for name, value in sheet.totals.items():
            assert sum(row[name] or 0 for row in rows) == value, (slug, name)
        assert {c.name for c in report.columns if c.is_summed} >= set(sheet.totals)


def test_a_budget_of_money_is_foreseen_as_one_of_hours_is(root, yard, team, project):
    """Two hours at 3.60 on a Friday, after three without; one Friday is left."""
    months = {"valid_from": datetime(2026, 11, 1, tzinfo=UTC), "valid_until": DECEMBER_1}
    for owner, limit in ((team, {"amount": Decimal(100)}), (project, {"gpu_hours": 100})):
        set_budget(actor=root, owner=owner, now=at(86_400), **months, **limit)
    now_s = int(at(86_400).timestamp())
    rows, _ = opened(root, "budget-actual", now_s=now_s)
    money, hours = sorted(rows, key=lambda row: row["currency"] == "")
    assert (money["budget_amount"], money["actual_amount"]) == (100, Decimal("7.2"))
    foreseen = [
        money[f"{name}_amount"]
        for name in ("forecast_low", "forecast", "forecast_high", "variance")
    ]
    assert foreseen == [Decimal(x) for x in ("7.2", "9", "14.4", "-91")]
    assert money["forecast_gpu_seconds"] is hours["forecast_amount"] is None
    # The same four figures, at 3.60 an hour, but for the limit.
    assert hours["forecast_gpu_seconds"] == 9_000
    assert hours["forecast_high_gpu_seconds"] == 14_400


def test_names_and_places_change_no_amount(root, closed, team, other_team, project, alice):
    """F13: a team is renamed and put below another, a project, a person and a label are renamed."""

    def figures():
        slugs = [slug for slug in REPORTS if slug not in ("segments", "audit-extract")]
        totals = {slug: dict(opened(root, slug)[1].totals) for slug in slugs}
        owed = {row["account"]: row["total"] for row in opened(root, "period-summary")[0]}
        lines = UsageLine.objects.values_list("account", "gpu_seconds", "amount").order_by("pk")
        entries = LedgerEntry.objects.order_by("number").values_list("number", "hash")
        return totals, owed, list(lines), list(entries)

    before = figures()
    rename_team(actor=root, team=team, name="Seers")
    Team.objects.filter(pk=team.pk).update(slug="seers")
    move_team(actor=root, team=Team.objects.get(pk=team.pk), parent=other_team)
    Project.objects.filter(pk=project.pk).update(name="Figures", slug="figures")
    User.objects.filter(pk=alice.pk).update(username="alicia")
    job = Job.objects.filter(owner=alice).get()
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "labels": {"experiment": "other"}})
    assert figures() == before
    # Rated anew, there is nothing to correct; and the names are the new ones.
    assert books.correct_period(actor=root, period=NOVEMBER, reason="look", now=LATER) == []
    assert books.verify_ledger().breaks == ()
    assert {row["team"] for row in opened(root, "job-cost")[0]} >= {"seers"}


def test_a_summary_has_hours_and_amounts_by_kind(root, closed, project):
    rows, sheet = opened(root, "period-summary")
    assert len(sheet.checks) == 3
    (mine,) = [row for row in rows if row["account"].endswith(f"project:{project.pk}")]
    assert (mine["guaranteed_gpu_seconds"], mine["guaranteed_amount"]) == (7_200, Decimal("7.2"))
    assert (mine["adjustments"], mine["total"]) == (Decimal("-0.333"), Decimal("6.867"))
    # What is owed to the cent is the rounding's business, on the team's own account.
    assert sheet.totals["total"] == Decimal("10.47")


def test_a_check_compares_to_the_last_digit():
    assert not Check("a = b", Decimal("1.00"), Decimal("1.000000000000001")).holds
    assert Check("a = b", Decimal("1.00"), 1).holds
    assert Bound("a at most b", 1, 2).holds and not Bound("a at most b", 3, 2).holds


def test_a_statement_is_its_lines(root, closed, team, lead, finance):
    for viewer in (root, lead, finance):
        rows, sheet = opened(viewer, "team-statement", team="vision")
        found = sorted((row["kind"], row["billed"]) for row in rows)
        assert found == [("adjustment", Decimal("-0.33")), ("usage", Decimal("7.20"))]
        assert all(check.holds for check in sheet.checks)


def test_costs_of_jobs_belong_to_their_owners(root, closed, alice, bob, lead, carol):
    rows, _ = opened(root, "job-cost")
    assert [row["amount"] for row in rows] == [Decimal("7.2"), Decimal("3.6")]
    assert opened(lead, "job-cost")[0][0]["person"] == "alice"
    (mine,) = opened(alice, "job-cost")[0]
    assert (mine["person"], mine["amount"]) == ("alice", Decimal("7.2"))
    assert [row["amount"] for row in opened(carol, "job-cost")[0]] == [Decimal("3.6")]
    assert opened(bob, "job-cost")[0] == []


def test_who_keeps_the_books_reads_pseudonyms(clerk, closed):
    rows, _ = opened(clerk, "job-cost")
    assert all(len(row["person"]) == 16 and row["person"] != "alice" for row in rows)


def test_a_foreign_team_is_no_team(lead, closed):
    for slug in ("period-summary", "team-statement", "job-cost", "adjustments", "quota-use"):
        with pytest.raises(NotFound):
            opened(lead, slug, team="speech")
    assert {row["team"] for row in opened(lead, "period-summary")[0]} == {"vision"}


def test_reports_are_for_those_they_are_for(alice, lead, operator, root, closed):
    def slugs(viewer):
        return {report.slug for report in reports_for(viewer)}

    assert slugs(alice) == {"job-cost", "idle-waste", "use-and-waste", "unit-cost"}
    assert "capacity" in slugs(operator) and "team-statement" not in slugs(operator)
    assert "capacity" not in slugs(lead) and "team-statement" in slugs(lead)
    assert len(slugs(root)) == 13
    for viewer, slug in ((alice, "period-summary"), (lead, "capacity"), (lead, "rate-variance")):
        with pytest.raises(Forbidden):
            opened(viewer, slug)


def test_wrong_questions_are_refused(root, closed):
    for narrowed in ({"sort": "nothing"}, {"sku": "x"}):
        with pytest.raises(Invalid):
            opened(root, "period-summary", **narrowed)
    with pytest.raises(Invalid, match="order of the ledger"):
        opened(root, "job-cost", sort="amount")
    for slug, period in (("nothing", NOVEMBER), ("capacity", "2026-13"), ("capacity", "x")):
        with pytest.raises(NotFound):
            open_report(root, slug, Ask(period))


def test_an_open_month_says_so(root, yard):
    rows, sheet = opened(root, "team-statement")
    assert rows == [] and "not closed" in sheet.remarks[0]


def test_capacity_is_the_identity_day_by_day(operator, yard):
    rows, _ = opened(operator, "capacity")
    # Two cards from noon of the 20th to the end of the month.
    assert len(rows) == 11
    assert rows[0]["run_gpu_seconds"] == 3 * 3_600
    assert rows[0]["free_gpu_seconds"] == 2 * 43_200 - 3 * 3_600
    assert {row["in_service_gpu_seconds"] for row in rows[1:]} == {2 * 86_400}


def test_a_month_that_lasts_ends_now(operator, yard):
    now = int(datetime(2026, 11, 21, 6, tzinfo=UTC).timestamp())
    rows, _ = opened(operator, "capacity", now_s=now)
    assert [row["in_service_gpu_seconds"] for row in rows] == [2 * 43_200, 2 * 6 * 3_600]


def test_a_corrected_month_is_restated(root, clerk, closed, project):
    books.reopen_period(actor=clerk, period=NOVEMBER, reason="forgot a credit")
    books.reopen_period(actor=root, period=NOVEMBER)
    adjustment = books.propose_adjustment(
        actor=clerk, project=project, amount=Decimal("-1"), reason="credit", now=at(9)
    )
    books.post_adjustment(actor=root, adjustment=adjustment, now=at(10))
    close(root, now=LATER)
    rows, sheet = opened(root, "restatements")
    assert [(r["before"], r["after"], r["delta"]) for r in rows] == [
        (Decimal("6.87"), Decimal("5.87"), Decimal(-1))
    ]
    assert rows[0]["cause"] == "forgot a credit"
    assert all(check.holds for check in sheet.checks)


def test_pools_cost_is_held_against_what_was_charged(root, clerk, yard):
    asset = books.propose_asset(
        actor=clerk,
        pool=yard.pool,
        name="cards",
        paid=Decimal("60"),
        since=date(2026, 11, 1),
        months=2,
    )
    books.approve_spending(actor=root, row=asset)
    close(root)
    rows, sheet = opened(root, "rate-variance")
    (row,) = rows
    # 60 over 61 days, cut down to a millionth a day, for 30 days.
    assert row["pool_cost"] == Decimal("29.50818") and row["charged"] == Decimal("10.8")
    assert row["variance"] == Decimal("-18.70818")
    assert (row["recovery_percent"], row["teams_percent"]) == (Decimal("36.60"), Decimal("100.00"))
    assert [check.words for check in sheet.checks][-1] == "pool cost equals the close"
    assert all(check.holds for check in sheet.checks)


def test_parts_of_a_cost_add_up_to_it():
    parts = split(Decimal("10.000000000000001"), {"a": 1, "b": 1, "c": 1})
    assert sum(parts.values()) == Decimal("10.000000000000001")
    assert parts["a"] == Decimal("3.333333")
    assert split(Decimal(5), {}) == {"(nothing ran)": 5}


def test_work_without_a_label_is_not_dropped(root, closed):
    rows, _ = opened(root, "unit-cost")
    assert [(row["label"], row["runs"]) for row in rows] == [("(unlabelled)", 2)]


def test_sums_of_texts_are_exact(root, closed):
    for model in (UsageLine, LedgerEntry):
        summed = model.objects.aggregate(amount=ExactSum("amount"))["amount"]
        assert summed == sum(row.amount for row in model.objects.all())
    Adjustment.objects.update(amount=Decimal("-0.000000100000001"))
    negative = Adjustment.objects.aggregate(amount=ExactSum("amount"))["amount"]
    assert negative == Decimal("-0.000000100000001")
    none = LedgerEntry.objects.filter(pk=0).aggregate(amount=ExactSum("amount"))["amount"]
    assert none is None
