"""The nightly reconciliation: holds on sound books, and says which tie a spoilt one breaks."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from accounts.errors import Forbidden
from scheduler.models import Attempt, LedgerHead, Reconciliation
from scheduler.selectors.books.overview import reconciliation
from scheduler.services import books
from scheduler.states import EndReason
from scheduler.tasks import reconcile_books
from tests.services.test_books import DECEMBER, clerk, close, yard
from tests.services.test_books_hold import SPOILS, spoil

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
        *("chain", "balance", "lines", "statements", "reports", "recount"),
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
    if slug in ("statements", "reports", "partition"):
        unlock()
    spoil(SPOILT[slug])
    run = books.reconcile_books(now=DECEMBER)
    assert slug in broken(run)
    with pytest.raises(CommandError, match="do not tie"):
        call_command("books", "reconcile")


@pytest.mark.once
def test_time_held_for_nobody_is_found_where_the_table_let_it_in(root, yard):
    close(root)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute(
            "UPDATE scheduler_devicesegment SET attempt_id = NULL WHERE bucket = 'run' AND id = "
            "(SELECT MIN(id) FROM scheduler_devicesegment WHERE bucket = 'run')"
        )
        cursor.execute("PRAGMA ignore_check_constraints = OFF")
    said = broken(books.reconcile_books(now=DECEMBER))["attribution"]
    assert "is run from second" in said and "for nobody" in said


def unlock() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for table in ("statement", "statementline", "devicesegment"):
                cursor.execute(f"ALTER TABLE scheduler_{table} DISABLE TRIGGER USER")


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
