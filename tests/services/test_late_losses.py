"""A loss learnt after a close goes back once, whatever the month's books went through meanwhile."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.models import Rate
from accounts.services import approve_rate, propose_rate
from scheduler.ledger.entries import RECOVERY
from scheduler.ledger.exact import total
from scheduler.models import Attempt, CountingAct, LedgerEntry, Period
from scheduler.services import books
from scheduler.services.books import counting, recounting
from scheduler.services.errors import Conflict
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_books import DECEMBER, LATER, clerk, close, statements, yard
from tests.services.test_refunds import EVE, credited

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
LOST = datetime(2026, 12, 10, 12, tzinfo=UTC)
FEBRUARY = datetime(2027, 2, 2, 9, tzinfo=UTC)


def runs_on(person, place, node) -> Attempt:
    """Runs from ten in the evening of the last of November on."""
    attempt = scenes.start(scenes.submit(person, place, now=at(EVE)), node, now=at(EVE))
    scenes.sync(node, scenes.running(attempt), now=at(EVE))
    return attempt


def lose(attempt: Attempt, node, now: datetime = LOST) -> None:
    late = scenes.ended(attempt, reason=EndReason.DEVICE_FAILED, exit_code=None)
    scenes.sync(node, late, now=now)
    attempt.refresh_from_db()
    assert (attempt.end_reason, attempt.ended_at) == (EndReason.DEVICE_FAILED, now)


def reopen(root, clerk, month: str = "2026-11") -> None:
    books.reopen_period(actor=root, period=month, reason="look")
    books.reopen_period(actor=clerk, period=month)


def restate(root, clerk, amount: str) -> None:
    rate = propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        price_per_gpu_hour=Decimal(amount),
        valid_from=NOON - timedelta(days=3),
        restate=True,
        reason="contract",
    )
    approve_rate(actor=root, rate=rate)


def owed(account: str, month: str = "2026-11") -> Decimal:
    """What the books say an account, or a team with its projects, owes for a month."""
    rows = LedgerEntry.objects.filter(service_period__name=month).exclude(sku="")
    sides = [
        (row.debit, row.amount) if row.credit == RECOVERY else (row.credit, -row.amount)
        for row in rows
    ]
    return total(amount for name, amount in sides if name.partition("/")[0] == account)


def test_a_loss_that_a_second_close_knew_of_is_not_credited_again(
    root, clerk, yard, alice, project, team
):
    node = yard.node(1)
    attempt = runs_on(alice, project, node)
    assert statements(close(root))[f"team:{team.pk}"] == 720 + 720
    lose(attempt, node)
    reopen(root, clerk)
    again = close(root, now=LOST + timedelta(days=2))
    assert statements(again)[f"team:{team.pk}"] == 720
    assert credited() == [(f"team:{team.pk}", Decimal("7.2"))]
    # What it ran in December is the platform's, and December says nothing of November.
    december = close(root, "2026-12", now=LATER)
    assert f"team:{team.pk}" not in statements(december)
    assert owed(f"team:{team.pk}") == Decimal("7.2")
    assert books.reconcile_books(now=LATER).holds


def test_a_loss_goes_back_at_the_price_that_was_booked_last(
    root, clerk, yard, alice, project, team
):
    """Charged at 3.60, corrected to 3.00, then lost: 6 for two hours, and none of 7.20."""
    node = yard.node(1)
    attempt = runs_on(alice, project, node)
    close(root)
    restate(root, clerk, "3")
    books.correct_period(actor=root, period="2026-11", reason="contract", now=DECEMBER)
    assert owed(f"team:{team.pk}") == 12
    lose(attempt, node)
    december = close(root, "2026-12", now=LATER)
    assert owed(f"team:{team.pk}") == 6
    # 14.40 became 12 in December, and 6 of those went back.
    assert statements(december)[f"team:{team.pk}"] == -240 - 600
    assert owed("platform") == 6
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=LATER) == []


def test_a_loss_of_a_silent_node_that_was_charged_later_goes_back(root, yard, alice, project, team):
    """No line of the first close says that the team was charged; a correction did."""
    node = yard.node(1)
    attempt = runs_on(alice, project, node)
    Attempt.objects.filter(pk=attempt.pk).update(end_reason=EndReason.NODE_LOST)
    close(root)
    Attempt.objects.filter(pk=attempt.pk).update(end_reason="")
    books.correct_period(actor=root, period="2026-11", reason="ran on", now=DECEMBER)
    assert owed(f"team:{team.pk}") == Decimal("14.4")
    lose(attempt, node)
    close(root, "2026-12", now=LATER)
    assert owed(f"team:{team.pk}") == Decimal("7.2")


def test_the_close_says_what_it_cannot_count_of_the_month_before(root, yard, alice, project):
    """Both the check before it and the close name the price that November lacks by now."""
    node = yard.node(1)
    attempt = runs_on(alice, project, node)
    close(root)
    lose(attempt, node)
    Rate.objects.filter(device_model=scenes.MODEL).update(valid_from=at(EVE + 60))
    trial = books.try_period(actor=root, period="2026-12", now=LATER)
    assert any("has no price on 20 Nov 2026" in f.words for f in trial.blocked)
    with pytest.raises(books.CloseBlocked, match="has no price on 20 Nov 2026"):
        close(root, "2026-12", now=LATER)
    assert Period.objects.get(name="2026-12").version == 0


def test_of_two_corrections_at_once_the_older_count_takes_nothing_back(
    root, yard, alice, project, team, monkeypatch
):
    node = yard.node(1)
    attempt = runs_on(alice, project, node)
    close(root)
    count = recounting.count_month

    def overtaken(month, period, **more):
        counted = count(month, period, **more)
        monkeypatch.setattr(recounting, "count_month", count)
        lose(attempt, node)
        assert books.correct_period(actor=root, period="2026-11", reason="lost", now=LOST)
        return counted

    monkeypatch.setattr(recounting, "count_month", overtaken)
    with pytest.raises(Conflict, match="2026-11 was corrected while it was counted"):
        books.correct_period(actor=root, period="2026-11", reason="look", now=LOST)
    assert owed(f"team:{team.pk}") == Decimal("7.2")
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=LOST) == []


def test_the_night_counts_months_anew_that_entries_were_booked_for(root, yard, alice, project):
    """November after December closed, as long as December holds entries for it."""
    node = yard.node(1)
    attempt = runs_on(alice, project, node)
    close(root)
    lose(attempt, node)
    close(root, "2026-12", now=LATER)

    def recounted() -> list[tuple[str, bool]]:
        checks = books.reconcile_books(now=FEBRUARY).checks
        return [(c["what"][:7], c["holds"]) for c in checks if c["slug"] == "recount"]

    assert recounted() == [("2026-11", True), ("2026-12", True)]
    Attempt.objects.filter(job__project=project).update(end_reason=EndReason.NODE_LOST)
    assert recounted() == [("2026-11", False), ("2026-12", True)]
    close(root, "2027-01", now=FEBRUARY)
    assert recounted() == [("2027-01", True)]


def test_whether_a_page_may_wait_looks_at_the_earlier_month_too(
    root, yard, alice, project, monkeypatch
):
    attempt = runs_on(alice, project, yard.node(1))
    close(root)
    lose(attempt, yard.node(1))
    looked: list[str] = []
    monkeypatch.setattr(counting, "is_much", lambda months: bool(looked.extend(map(str, months))))
    for act in (CountingAct.CHECK, CountingAct.CLOSE):
        assert books.count_behind(actor=root, act=act, period="2026-12", now=LATER) is None
    assert looked == ["2026-12", "2026-11"] * 2


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_the_books_hold_what_was_not_lost(
    seed, root, clerk, yard, alice, carol, project, other_project, team, other_team
):
    """Losses, corrections, prices and second closes in any order before December closes."""
    chance = random.Random(seed)
    nodes = {1: yard.node(1), 2: yard.node(2)}
    left = {1: runs_on(alice, project, nodes[1]), 2: runs_on(carol, other_project, nodes[2])}
    close(root)
    day, price = 3, Decimal("3.6")
    acts = ["lose", *chance.choices(("lose", "correct", "reopen", "restate"), k=5)]
    for act in chance.sample(acts, len(acts)):
        day += 1
        now = datetime(2026, 12, day, 12, tzinfo=UTC)
        if act == "lose" and left:
            one = chance.choice(sorted(left))
            lose(left.pop(one), nodes[one], now)
        elif act == "correct":
            books.correct_period(actor=root, period="2026-11", reason="look", now=now)
        elif act == "reopen":
            reopen(root, clerk)
            close(root, now=now)
        elif act == "restate":
            price = Decimal(chance.randrange(1, 9))
            restate(root, clerk, str(price))
    close(root, "2026-12", now=LATER)
    assert owed(f"team:{team.pk}") == price * (2 + 2 * (1 in left))
    assert owed(f"team:{other_team.pk}") == price * (1 + 2 * (2 in left))
    assert books.reconcile_books(now=LATER).holds
