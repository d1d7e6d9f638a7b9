"""A close seals its totals and statements; the chain is read while others go on posting."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from scheduler.ledger.exact import plain
from scheduler.models import Attempt, LedgerEntry, LedgerHead, PeriodClose, Statement, StatementLine
from scheduler.services import books
from scheduler.services.books import sealing, verifying
from scheduler.services.books.sealing import check_seals
from scheduler.states import EndReason
from tests.services.test_books import DECEMBER, LATER, clerk, close, yard
from tests.services.test_books_hold import SPOILS
from tests.services.unlocking import spoil, unlocked

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


def test_a_close_seals_totals_by_account_and_sku(root, clerk, yard, team, other_team):
    first = close(root)
    sealed = {(account, sku): figures for account, sku, *figures in first.sealed["totals"]}
    amounts = {key[0].partition("/")[0]: figures for key, figures in sealed.items()}
    assert amounts[f"team:{team.pk}"] == [7_200, "7.200000000000000"]
    assert amounts[f"team:{other_team.pk}"] == [3_600, "3.600000000000000"]
    assert first.sealed["entries"] == LedgerEntry.objects.count()
    # What a second version adds leaves the seal of the first one whole.
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    for person in (root, clerk):
        books.reopen_period(actor=person, period="2026-11", reason="wrong")
    close(root)
    assert check_seals(first.period) == [] and books.verify_ledger().breaks == ()


def test_the_first_total_that_differs_is_named(root, yard):
    period = close(root).period
    first = LedgerEntry.objects.get(number=1)
    spoil(SPOILS["amount"])
    (words,) = check_seals(period)
    assert words == (
        f"the close of 2026-11, version 1, sealed {plain(first.amount)} in {first.gpu_seconds} s "
        f"of {first.debit}, {first.sku}; the entries say 7.200000000000001 in {first.gpu_seconds} s"
    )
    assert words in books.verify_ledger().breaks
    with pytest.raises(CommandError):
        call_command("verify_ledger")


def test_statements_changed_so_that_they_still_add_up_are_found(root, yard):
    """A coin goes from one team to the other, in parts, sums and roundings alike."""
    period = close(root).period
    one, other = Statement.objects.order_by("number")
    with unlocked():
        for statement, coin in ((one, -1), (other, 1)):
            StatementLine.objects.filter(statement=statement).update(units=statement.units + coin)
            Statement.objects.filter(pk=statement.pk).update(units=statement.units + coin)
    assert check_seals(period) == [
        "the close of 2026-11, version 1, sealed other statements than there are"
    ]
    run = books.reconcile_books(now=DECEMBER)
    assert "seals" in {check["slug"] for check in run.checks if not check["holds"]}


def test_a_close_of_before_has_no_seal(root, yard, monkeypatch):
    period = close(root).period
    with unlocked():
        PeriodClose.objects.update(sealed=None)
    monkeypatch.setattr(sealing, "_noted", lambda period: {})
    assert check_seals(period) == []
    (told,) = (c for c in books.reconcile_books(now=DECEMBER).checks if c["slug"] == "seals")
    assert told["holds"] and told["what"].endswith("; closes from before seals: 1")
    later = close(root, "2026-12", now=LATER)
    for broken in ({}, 7, [], {"entries": 0, "statements": "", "totals": [["team:1"]]}):
        with unlocked():
            PeriodClose.objects.filter(pk=later.pk).update(sealed=broken)
        assert [*check_seals(period), *check_seals(later.period)] == [
            "the close of 2026-12, version 1, has a seal that says too little"
        ]


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_seal_that_is_gone_is_missed(root, yard, is_noted, monkeypatch):
    """By the audit; without its word by the seals of earlier closes."""
    close(root)
    period = close(root, "2026-12", now=LATER).period
    with unlocked():
        PeriodClose.objects.filter(period=period).update(sealed=None)
    if not is_noted:
        monkeypatch.setattr(sealing, "_noted", lambda period: {})
    assert check_seals(period) == ["the close of 2026-12, version 1, has lost its seal"]


def test_a_seal_that_was_made_to_fit_is_not_what_the_audit_noted(root, yard):
    period = close(root).period
    with unlocked():
        PeriodClose.objects.update(sealed={"entries": 0, "totals": [], "statements": ""})
    assert check_seals(period) == [
        "the close of 2026-11, version 1, has another seal than the audit noted"
    ]


def test_what_is_posted_while_the_chain_is_read_breaks_nothing(root, yard, team, monkeypatch):
    close(root)
    named = verifying.entries_named

    def meanwhile():
        monkeypatch.setattr(verifying, "entries_named", named)
        Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
        books.correct_period(actor=root, period="2026-11", reason="lost", now=DECEMBER)
        return named()

    monkeypatch.setattr(verifying, "entries_named", meanwhile)
    before = LedgerEntry.objects.count()
    report = verifying.check_chain()
    assert (report.entries, report.broken, report.unanchored) == (before, (), ())
    assert LedgerEntry.objects.count() > before


def test_an_entry_behind_the_head_is_found(root, yard):
    close(root)
    last = LedgerEntry.objects.order_by("number").last()
    LedgerHead.objects.update(number=last.number - 1, hash=last.previous)
    assert verifying.check_chain().broken == (
        f"entry {last.number} lies behind the end of the chain",
    )
