"""F10: however many close a month at once, its lines, entries and hashes are those of one close."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from django.db import connections, transaction

from accounts.services import appoint_bookkeeper
from scheduler.models import Attempt, LedgerEntry, Period, PeriodClose, Statement, UsageLine
from scheduler.services import books
from scheduler.services.books import closing
from scheduler.services.errors import Conflict
from scheduler.states import EndReason
from tests.locks import elsewhere, just_before, wait_until_somebody_waits
from tests.services.test_books import DECEMBER, close, yard

__all__ = ["yard"]
CLOSERS = 4


def hashes() -> list[str]:
    return list(LedgerEntry.objects.order_by("number").values_list("hash", flat=True))


def close_alone(root) -> list[str]:
    """The hashes of one close that nobody disturbs; nothing of it stays."""
    with transaction.atomic():
        close(root)
        found = hashes()
        transaction.set_rollback(True)
    assert found and not LedgerEntry.objects.exists()
    return found


def assert_closed_once(alone: list[str]) -> None:
    assert hashes() == alone
    only = PeriodClose.objects.get()
    assert (only.version, only.lines) == (1, UsageLine.objects.count())
    assert Statement.objects.filter(close=only).count() == Statement.objects.count() == 2
    assert books.verify_ledger().breaks == ()


@pytest.mark.django_db
@pytest.mark.parametrize("when", ["before its lines", "after its lines"])
def test_a_close_that_was_overtaken_writes_nothing_more(root, yard, monkeypatch, when):
    alone = close_alone(root)
    count = closing.count_month

    def overtaken(month, period, **more):
        monkeypatch.setattr(closing, "count_month", count)
        if when == "before its lines":
            close(root)
            return count(month, period, **more)
        counted = count(month, period, **more)
        close(root)
        return counted

    monkeypatch.setattr(closing, "count_month", overtaken)
    with pytest.raises(Conflict, match="closed meanwhile"):
        close(root)
    assert_closed_once(alone)


@pytest.mark.django_db
def test_a_close_that_another_one_began_after_gives_up(root, yard, monkeypatch):
    """The other one broke off, too: the month stays open for a third."""
    alone = close_alone(root)
    count = closing.count_month

    def begun_again(month, period, **more):
        closing.claim_close(Period.objects.get(pk=period.pk))
        return count(month, period, **more)

    with monkeypatch.context() as patched:
        patched.setattr(closing, "count_month", begun_again)
        with pytest.raises(Conflict, match="closed by somebody else"):
            close(root)
    assert not UsageLine.objects.exists()
    close(root)
    assert_closed_once(alone)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_of_four_that_close_at_once_one_does(root, yard):
    alone = close_alone(root)
    gate, answers = threading.Barrier(CLOSERS), []

    def run() -> None:
        try:
            gate.wait()
            close(root)
            answers.append("closed")
        except Conflict:
            answers.append("refused")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(CLOSERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["closed", *["refused"] * (CLOSERS - 1)]
    assert_closed_once(alone)


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_second_close_and_a_correction_that_meet_wait_for_each_other(
    root, finance, yard, team, monkeypatch
):
    """The correction looked while the month was closed; two people reopened it meanwhile."""
    appoint_bookkeeper(actor=root, user=finance)
    close(root)
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    is_closing, said = threading.Event(), []

    def meet() -> None:
        is_closing.set()
        wait_until_somebody_waits()

    def close_again() -> None:
        try:
            said.append(close(root).version)
        except Exception as problem:
            said.append(problem)
        finally:
            connections.close_all()

    closer = threading.Thread(target=close_again)

    def reopened() -> None:
        for person in (root, finance):
            again = {"actor": person, "period": "2026-11", "reason": "wrong project"}
            elsewhere(partial(books.reopen_period, **again))
        just_before(monkeypatch, closing, "post_losses", meet)
        closer.start()
        assert is_closing.wait(30), said

    just_before(monkeypatch, closing, "locked_head", reopened)
    with pytest.raises(Conflict, match="corrected while it was counted"):
        books.correct_period(actor=root, period="2026-11", reason="bad card", now=DECEMBER)
    closer.join(30)
    assert said == [2]
    assert books.verify_ledger().breaks == ()
