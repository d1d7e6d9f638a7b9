"""The nightly reconciliation: holds on sound books, and says which tie a spoilt one breaks."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from accounts.errors import Forbidden
from accounts.models import AuditEvent
from accounts.services.audit import Subject, record
from scheduler.ledger.entries import seal
from scheduler.models import Attempt, LedgerEntry, LedgerHead, PeriodClose, Reconciliation
from scheduler.selectors.books.chain import chained
from scheduler.selectors.books.overview import reconciliation
from scheduler.services import books
from scheduler.states import EndReason
from scheduler.tasks import reconcile_books
from tests.services.test_books import DECEMBER, clerk, close, yard
from tests.services.test_books_hold import SPOILS
from tests.services.unlocking import spoil, unlocked

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


def broken(run: Reconciliation) -> dict[str, str]:
    return {check["slug"]: check["words"] for check in run.checks if not check["holds"]}


def test_sound_books_hold_and_only_bookkeepers_are_told(root, yard, alice, operator):
    assert reconciliation(root) is None
    close(root)
    run = books.reconcile_books(now=DECEMBER)
    assert run.holds, broken(run)
    assert [check["slug"] for check in run.checks] == [
        *("partition", "attribution", "partition", "attribution"),
        *("chain", "anchors", "balance", "lines", "statements", "seals", "reports", "budgets"),
        "recount",
    ]
    assert reconciliation(root) == run
    for person in (alice, operator):
        with pytest.raises(Forbidden):
            reconciliation(person)


def test_without_any_books_it_holds(db, capsys):
    assert reconcile_books() is True
    call_command("books", "reconcile")
    assert "debits = credits: holds" in capsys.readouterr().out


SPOILT = {
    "chain": SPOILS["amount"],
    "lines": "UPDATE scheduler_usageline SET gpu_seconds = gpu_seconds + 1",
    "statements": "UPDATE scheduler_statementline SET units = units + 1",
    "reports": "UPDATE scheduler_statement SET units = units + 1",
    "partition": "UPDATE scheduler_devicesegment SET end_s = end_s - 1 WHERE bucket = 'run'",
}


@pytest.mark.parametrize("slug", SPOILT)
def test_what_was_changed_behind_its_back_is_found(root, yard, slug, capsys):
    close(root)
    spoil(SPOILT[slug])
    run = books.reconcile_books(now=DECEMBER)
    assert slug in broken(run)
    with pytest.raises(CommandError, match="do not tie"):
        call_command("books", "reconcile")


@pytest.mark.once
def test_time_held_for_nobody_is_found_where_the_table_let_it_in(root, yard):
    close(root)
    with unlocked(), connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute(
            "UPDATE scheduler_devicesegment SET attempt_id = NULL WHERE bucket = 'run' AND id = "
            "(SELECT MIN(id) FROM scheduler_devicesegment WHERE bucket = 'run')"
        )
        cursor.execute("PRAGMA ignore_check_constraints = OFF")
    said = broken(books.reconcile_books(now=DECEMBER))["attribution"]
    assert "is run from second" in said and "for nobody" in said


def test_a_fact_learnt_later_waits_for_a_correction_and_is_told(root, yard, team):
    close(root)
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    run = books.reconcile_books(now=DECEMBER)
    assert list(broken(run)) == ["recount"]
    assert "post a correction of 2026-11" in broken(run)["recount"]
    books.correct_period(actor=root, period="2026-11", reason="lost", now=DECEMBER)
    assert books.reconcile_books(now=DECEMBER).holds


def test_a_tail_that_was_cut_off_is_found(root, yard):
    close(root)
    LedgerHead.objects.update(hash="f" * 64)
    assert "are missing" in broken(books.reconcile_books(now=DECEMBER))["chain"]


def test_a_chain_rewritten_with_its_head_is_found_by_what_was_noted_elsewhere(root, yard):
    """First the close says so; where that was rewritten too, the audit does."""
    close(root)
    for _ in range(2):
        assert books.reconcile_books(now=DECEMBER).holds
    # Once, however many nights go by: the chain has not moved.
    assert AuditEvent.objects.filter(action="ledger.anchor", actor=None).count() == 1
    rewrite()
    first, *_ = books.verify_ledger().breaks
    assert "is not the one that the close of 2026-11, version 1 noted" in first
    head = LedgerHead.objects.get()
    with unlocked():
        PeriodClose.objects.update(head_hash=head.hash)
    run = books.reconcile_books(now=DECEMBER)
    assert "is not the one that audit event" in broken(run)["anchors"]
    # A chain that does not hold is not noted as if it did.
    assert AuditEvent.objects.filter(action="ledger.anchor").count() == 1


def test_a_tail_that_was_cut_off_with_its_head_is_found(root, yard):
    close(root)
    behind = LedgerHead.objects.get().number + 1
    noted = {"head_number": behind, "head_hash": "f" * 64}
    record(None, "ledger.anchor", Subject("ledger"), after=noted, now=DECEMBER)
    (found,) = books.verify_ledger().breaks
    assert found.startswith(f"entry {behind}, noted by audit event")


def rewrite() -> None:
    """Another reason in the first entry, and every hash behind it made to fit."""
    spoil(SPOILS["reason"])
    stored = [link.entry for link in chained.chain_of(chained.entries_named())]
    with unlocked():
        for link in seal(stored):
            rows = LedgerEntry.objects.filter(number=link.entry.number)
            rows.update(previous=link.previous, hash=link.hash)
    LedgerHead.objects.update(number=link.entry.number, hash=link.hash)
