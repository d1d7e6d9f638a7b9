"""What a silent node tells later: the books count what its program ran, whenever it is told."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from accounts.models import AuditEvent, Rate
from scheduler.models import LedgerEntry, Node, Notification, Placement, UsageLine
from scheduler.services import books, reaping
from scheduler.services.books.months.calendar import correct_by_late_reports
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_books import DECEMBER, clerk, close, statements, yard
from tests.services.test_spending import reports_tie

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
BEGAN, SILENT, BACK = 10_000, 11_000, 12_000


@pytest.fixture
def silent(yard, alice, project):
    """An attempt that runs from 10 000 s on, on a node that is not heard from 11 000 s on."""
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project, now=at(BEGAN)), node, now=at(BEGAN))
    scenes.sync(node, scenes.running(attempt), now=at(BEGAN))
    reaping.mark_silent(now=at(SILENT))
    return attempt


def node_of(yard) -> Node:
    return Node.objects.get(pk=yard.node(1).pk)


def ended(attempt, second: float, **fields):
    """It ended at `second` by the node's clock."""
    moment = NOON.timestamp()
    return scenes.ended(attempt, started_at=moment + BEGAN, ended_at=moment + second, **fields)


def seconds(kind: str) -> int:
    return sum(line.gpu_seconds for line in UsageLine.objects.filter(kind=kind))


# Of 1 000 silent seconds: those in which the program ran by the word of its node.
@pytest.mark.parametrize(
    ("until", "ahead", "ran"),
    [
        (11_400, 0, 400),
        (11_400, 100, 300),
        (BACK, 0, 1_000),
        (20_000, 0, 1_000),
        (SILENT, 0, 0),
        (9_000, 0, 0),
    ],
)
def test_silent_time_that_was_used_is_charged_once_that_is_known(
    root, yard, team, silent, until, ahead, ran
):
    """Prices are 0.001 a second; the vision team has 7.20 from elsewhere."""
    clock = at(BACK).timestamp() + ahead
    scenes.sync(node_of(yard), ended(silent, until), now=at(BACK), sent_at=clock)
    closed = close(root)
    assert (seconds("unreachable"), seconds("run-guaranteed")) == (
        1_000 - ran,
        3 * 3_600 + 1_000 + ran,
    )
    assert statements(closed)[f"team:{team.pk}"] == 720 + (1_000 + ran) // 10
    assert closed.seconds["unreachable"] == 1_000, "what the cluster knew then is kept"
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER) == []
    assert books.verify_ledger().breaks == ()
    reports_tie(root)


def test_a_program_that_was_not_seen_to_start_proves_nothing(root, yard, alice, project):
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project, now=at(BEGAN)), node, now=at(BEGAN))
    reaping.mark_silent(now=at(SILENT))
    moment = NOON.timestamp()
    late = scenes.ended(attempt, started_at=moment + 11_300, ended_at=moment + 11_900)
    scenes.sync(node_of(yard), late, now=at(BACK))
    close(root)
    assert seconds("unreachable") == 1_000


def test_an_attempt_that_was_given_up_is_told_of_once_and_its_end_stands(root, yard, team, silent):
    """The platform bears it all the same: it was the cluster that lost the node."""
    reaping.mark_lost(now=at(90_000))
    silent.refresh_from_db()
    assert silent.end_reason == EndReason.NODE_LOST
    before = Placement.objects.get(attempt=silent)
    for second in (11_600, 11_900):
        reply = scenes.sync(node_of(yard), ended(silent, second), now=at(95_000))
        assert silent.pk in reply.forget
    told = Placement.objects.get(attempt=silent)
    assert (told.ran_until, told.ran_told_at) == (at(11_600), at(95_000))
    assert (told.ended_at, told.end_reason) == (before.ended_at, before.end_reason)
    event = AuditEvent.objects.get(action="job.tell_late")
    assert json.loads(event.after)["attempt"] == silent.pk and event.actor is None
    closed = close(root)
    platform = UsageLine.objects.filter(account="platform", kind="run-guaranteed")
    assert sum(line.gpu_seconds for line in platform) == 1_600
    assert statements(closed)[f"team:{team.pk}"] == 720


def test_what_is_told_after_the_close_is_booked_by_the_next_night(root, yard, team, silent):
    """In the month that is open, once, by the system; a month of its own is not reopened."""
    eve = at(10 * 86_400 + 43_200 - 1)
    reaping.mark_lost(now=eve)
    # The end is the team's own: what it used is the team's to pay.
    Placement.objects.filter(attempt=silent).update(ended_at=eve)
    type(silent).objects.filter(pk=silent.pk).update(end_reason=EndReason.CANCELLED_BY_USER)
    closed = close(root)
    assert statements(closed)[f"team:{team.pk}"] == 720 + 100
    assert correct_by_late_reports(now=DECEMBER) == 0
    scenes.sync(node_of(yard), ended(silent, 11_400), now=DECEMBER)
    assert correct_by_late_reports(now=DECEMBER) == 2
    entries = LedgerEntry.objects.filter(batch__startswith="correct 2026-11").order_by("pk")
    assert {(one.period.name, one.service_period.name) for one in entries} == {
        ("2026-12", "2026-11")
    }
    moved = {(one.debit, one.credit, one.sku.partition(":")[2], one.gpu_seconds) for one in entries}
    mine = f"team:{team.pk}/project:{silent.job.project_id}"
    assert moved == {
        (mine, "recovery", "run-guaranteed", 400),
        ("recovery", "platform", "unreachable", 400),
    }
    assert {one.created_by for one in entries} == {"the system"}
    for nights in (0, 1, 4):
        assert correct_by_late_reports(now=DECEMBER + timedelta(days=nights)) == 0
    assert books.verify_ledger().breaks == ()
    assert books.reconcile_books(now=DECEMBER).holds


def test_what_keeps_a_month_from_being_corrected_is_told_and_the_night_goes_on(
    root, clerk, yard, silent
):
    reaping.mark_lost(now=at(90_000))
    type(silent).objects.filter(pk=silent.pk).update(end_reason=EndReason.CANCELLED_BY_USER)
    close(root)
    scenes.sync(node_of(yard), ended(silent, 11_400), now=DECEMBER)
    booked = LedgerEntry.objects.count()
    Rate.objects.filter(kind="").update(valid_from=DECEMBER)
    for nights in (0, 1):
        assert correct_by_late_reports(now=DECEMBER + timedelta(days=nights)) == 0
    assert LedgerEntry.objects.count() == booked
    news = Notification.objects.get(person=clerk, title__endswith="could not be corrected")
    assert news.title.startswith("2026-11") and "In the way: " in news.text


def test_people_who_close_by_hand_are_left_to_correct_by_hand(root, yard, silent, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "auto_close": "off"}
    reaping.mark_lost(now=at(90_000))
    type(silent).objects.filter(pk=silent.pk).update(end_reason=EndReason.CANCELLED_BY_USER)
    close(root)
    scenes.sync(node_of(yard), ended(silent, 11_400), now=DECEMBER)
    assert correct_by_late_reports(now=DECEMBER) == 0
    recount = next(
        one for one in books.reconcile_books(now=DECEMBER).checks if one["slug"] == "recount"
    )
    assert "post a correction of 2026-11" in recount["words"]
