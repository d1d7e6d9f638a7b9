"""What goes back is a credit of its own; what held nothing costs nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from scheduler.ledger.exact import total
from scheduler.ledger.focus import rules as focus_rules
from scheduler.models import Attempt, Job, LedgerEntry, Node, UsageLine
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.focus import focus_rows
from scheduler.selectors.books.frame import Ask
from scheduler.services import books, reaping
from scheduler.services.nodes import create_pool
from scheduler.services.stopping import request_stop
from scheduler.states import EndReason, JobState
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_books import DECEMBER, LATER, clerk, close, statements, yard
from tests.services.test_spending import reports_tie

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
# Ten in the evening of the last of November.
EVE = (datetime(2026, 11, 30, 22, tzinfo=UTC) - NOON).total_seconds()


def ran(person, place, node, begin, end, reason=EndReason.COMPLETED) -> Attempt:
    """An attempt of one card that runs from its start until its node reports its end."""
    attempt = scenes.start(scenes.submit(person, place, now=at(begin)), node, now=at(begin))
    scenes.sync(node, scenes.running(attempt), now=at(begin))
    code = 0 if reason is EndReason.COMPLETED else None
    scenes.sync(node, scenes.ended(attempt, reason=reason, exit_code=code), now=at(end))
    attempt.refresh_from_db()
    assert attempt.end_reason == reason
    return attempt


def credited() -> list[tuple[str, Decimal]]:
    rows = LedgerEntry.objects.filter(kind="credit").order_by("number")
    return [(entry.credit.partition("/")[0], entry.amount.normalize()) for entry in rows]


def test_what_a_preemption_threw_away_is_credited_if_the_terms_say_so(
    root, yard, alice, project, team
):
    """At 0.001 a second: 300 s since a checkpoint, and of the other one the last 600 s."""
    saved = ran(alice, project, yard.node(1), 10_000, 13_600, EndReason.PREEMPTED)
    Attempt.objects.filter(pk=saved.pk).update(checkpoint_at=at(13_300))
    ran(alice, project, yard.node(2), 10_000, 13_600, EndReason.PREEMPTED)
    books.propose_terms(actor=root, pool=yard.pool, refund_s=600)
    trial = books.try_period(actor=root, period="2026-11", now=DECEMBER)
    closed = close(root)
    assert trial.used == total(line.amount for line in UsageLine.objects.all()) == 18
    assert credited() == [(f"team:{team.pk}", Decimal("0.9"))]
    assert statements(closed)[f"team:{team.pk}"] == 720 + 720 - 90
    assert not UsageLine.objects.filter(gpu_seconds__lt=0).exists()
    rows = list(focus_rows(root, "2026-11"))
    places = [rows[0].index(name) for name in ("ChargeCategory", "BilledCost")]
    assert [row[places[1]] for row in rows[1:] if row[places[0]] == "Credit"] == ["-0.9"]
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER) == []
    assert books.reconcile_books(now=DECEMBER).holds
    reports_tie(root)


@pytest.mark.parametrize(("who", "cents"), [("platform", 260), ("team", 360)])
def test_silent_nodes_are_paid_for_as_the_terms_say(root, yard, alice, project, team, who, cents):
    """1 000 of 3 600 held seconds nobody heard the node; an attempt it lost stays the cluster's."""
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project, now=at(10_000)), node, now=at(10_000))
    scenes.sync(node, scenes.running(attempt), now=at(10_000))
    reaping.mark_silent(now=at(11_000))
    node = Node.objects.get(pk=node.pk)
    scenes.sync(node, scenes.running(attempt), now=at(12_000))
    scenes.sync(node, scenes.ended(attempt), now=at(13_600))
    if who == "team":
        books.propose_terms(actor=root, pool=yard.pool, unreachable=who)
    closed = close(root)
    lines = UsageLine.objects.filter(kind="unreachable")
    assert sum(line.gpu_seconds for line in lines) == 1_000
    payer = f"team:{team.pk}" if who == "team" else "platform"
    assert {line.account.partition("/")[0] for line in lines} == {payer}
    assert statements(closed)[f"team:{team.pk}"] == 720 + cents
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER) == []
    reports_tie(root)


def test_without_such_terms_nothing_goes_back(root, yard, alice, project):
    ran(alice, project, yard.node(1), 10_000, 13_600, EndReason.PREEMPTED)
    close(root)
    assert credited() == []


def test_a_loss_learnt_after_a_close_is_credited_by_the_next_one(
    root, yard, alice, project, team, other_team
):
    """Charged for two hours of November, lost in December: the platform owes them then."""
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project, now=at(EVE)), node, now=at(EVE))
    scenes.sync(node, scenes.running(attempt), now=at(EVE))
    november = close(root)
    assert statements(november)[f"team:{team.pk}"] == 720 + 720
    late = scenes.ended(attempt, reason=EndReason.DEVICE_FAILED, exit_code=None)
    scenes.sync(node, late, now=at(EVE + 4 * 3_600))
    december = close(root, "2026-12", now=LATER)
    assert credited() == [(f"team:{team.pk}", Decimal("7.2"))]
    assert statements(december) == {"platform": 1440, f"team:{team.pk}": -720}
    # What goes back is no use of December: its hours are not less than none.
    report, sheet = open_report(root, "period-summary", Ask("2026-12", team=team.slug))
    (row,) = sheet.rows(0)
    mine = dict(zip((column.name for column in report.columns), row.cells, strict=True))
    assert (mine["guaranteed_gpu_seconds"], mine["guaranteed_amount"]) == (0, 0)
    assert mine["adjustments"] == mine["total"] == Decimal("-7.2")
    assert all(check.holds for check in sheet.checks), sheet.checks
    table = list(focus_rows(root, "2026-12"))
    rows = [dict(zip(table[0], row, strict=True)) for row in table[1:]]
    (back,) = (row for row in rows if row["ChargeCategory"] == "Credit")
    assert (back["ChargeClass"], back["x_CorrectsPeriod"]) == ("Correction", "2026-11")
    assert back["ChargePeriodStart"] == "2026-11-01T00:00:00Z"
    assert LedgerEntry.objects.get(number=back["x_CorrectsEntryId"]).period.name == "2026-11"
    names = {(row["SubAccountId"], row["SubAccountName"]) for row in rows}
    assert names == {("platform", "Platform"), (f"team:{team.pk}", team.name)}
    assert list(focus_rules.check(table[0], rows, "1.2")) == []
    # The books of November are what a new count gives: there is nothing left to correct.
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=LATER)
    assert again == []
    assert books.verify_ledger().breaks == ()


def test_a_correction_before_that_credits_it_and_the_close_does_not_again(
    root, yard, alice, project, team
):
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project, now=at(EVE)), node, now=at(EVE))
    scenes.sync(node, scenes.running(attempt), now=at(EVE))
    close(root)
    late = scenes.ended(attempt, reason=EndReason.DEVICE_FAILED, exit_code=None)
    scenes.sync(node, late, now=at(EVE + 4 * 3_600))
    posted = books.correct_period(actor=root, period="2026-11", reason="lost", now=DECEMBER)
    assert {entry.kind for entry in posted} == {"credit", "correction"}
    close(root, "2026-12", now=LATER)
    assert credited() == [(f"team:{team.pk}", Decimal("7.2"))]


@pytest.mark.parametrize(
    ("refunds", "back"), [("first", ["0.9"]), ("second", []), ("both", ["0.9"])]
)
def test_a_refund_follows_the_pool_it_ran_in(root, yard, alice, project, team, refunds, back):
    """Preempted in one pool, then moved to another by its owner: the first one's terms hold."""
    other = create_pool(actor=root, name="other")
    most = {"first": (900, 0), "second": (0, 900), "both": (900, 60)}[refunds]
    for pool, refund_s in zip((yard.pool, other), most, strict=True):
        books.propose_terms(actor=root, pool=pool, refund_s=refund_s)
    attempt = ran(alice, project, yard.node(1), 10_000, 13_600, EndReason.PREEMPTED)
    assert attempt.job.state == JobState.QUEUED
    Job.objects.filter(pk=attempt.job_id).update(pool=other)
    assert books.try_period(actor=root, period="2026-11", now=DECEMBER).blocked == ()
    close(root)
    assert credited() == [(f"team:{team.pk}", Decimal(amount)) for amount in back]
    Job.objects.filter(pk=attempt.job_id).update(pool=yard.pool)
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER) == []


def test_preempted_in_the_second_it_was_planned_in_costs_nothing(root, yard, alice, project):
    """F24, on real rows: assigned, asked to stop and gone within a second."""
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project), node, now=at(20_000.1))
    locked = Attempt.objects.select_related("job__pool").get(pk=attempt.pk)
    request_stop(attempt=locked, reason=EndReason.PREEMPTED, now=at(20_000.4))
    report = scenes.ended(attempt, reason=EndReason.PREEMPTED, exit_code=None)
    scenes.sync(node, report, now=at(20_000.8))
    attempt.refresh_from_db()
    assert attempt.end_reason == EndReason.PREEMPTED
    assert close(root).control == 1080
    assert not UsageLine.objects.filter(attempt=attempt).exists()


def test_a_retry_of_one_task_of_an_array_charges_only_that_task(root, yard, alice, project):
    """F25: the others ran once and are charged once."""
    job_set = scenes.submit(alice, project, array="0-2", retries=1).job_set
    tasks = Job.objects.filter(job_set=job_set).order_by("pk")
    begin = 20_000
    for job in list(tasks):
        attempt = scenes.start(job, yard.node(1), now=at(begin))
        scenes.sync(yard.node(1), scenes.running(attempt), now=at(begin))
        fails = job == tasks[1]
        reason = EndReason.EXIT_CODE if fails else EndReason.COMPLETED
        report = scenes.ended(attempt, reason=reason, exit_code=int(fails))
        scenes.sync(yard.node(1), report, now=at(begin + 100))
        begin += 100
    again = tasks[1]
    assert again.state == JobState.QUEUED
    attempt = scenes.start(again, yard.node(1), now=at(begin))
    scenes.sync(yard.node(1), scenes.running(attempt), now=at(begin))
    scenes.sync(yard.node(1), scenes.ended(attempt), now=at(begin + 60))
    close(root)
    found = {
        (line.attempt.job_id, line.attempt.number): line.gpu_seconds
        for line in UsageLine.objects.filter(attempt__job__job_set=job_set)
    }
    first, second, third = tasks.values_list("pk", flat=True)
    assert found == {(first, 1): 100, (second, 1): 100, (second, 2): 60, (third, 1): 100}
