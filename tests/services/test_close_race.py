"""F10: however many close a month at once, its lines, entries and hashes are those of one close."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction

from scheduler.models import LedgerEntry, Period, PeriodClose, Statement, UsageLine
from scheduler.services import books
from scheduler.services.books import closing
from scheduler.services.errors import Conflict
from tests.services.test_books import close, yard

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
