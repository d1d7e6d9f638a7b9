"""A role that runs everything and only adds to books and audit: by privilege and by trigger."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from scheduler.management.commands.grant_role import APPEND_ONLY, quoted
from scheduler.models import LedgerEntry, PeriodClose
from scheduler.services import books
from tests.services.test_books import DECEMBER, LATER, close, yard

pytestmark = pytest.mark.django_db
__all__ = ["yard"]
ROLE = 'Yard\'s "programs"'


@contextmanager
def acting():
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {quoted(ROLE)}")
        yield cursor
        cursor.execute("RESET ROLE")


def refusal(statement: str, *, by_role: bool) -> str:
    words = f"SET LOCAL ROLE {quoted(ROLE)}; {statement}" if by_role else statement
    refused = pytest.raises(DatabaseError)
    with refused as found, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(words)
    return str(found.value)


@pytest.mark.postgres
def test_the_programs_close_months_and_cannot_change_them(root, yard):
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {quoted(ROLE)}")
    for _ in range(2):
        call_command("grant_role", ROLE)
    with acting():
        closed = close(root)
        assert books.verify_ledger().breaks == ()
        assert books.reconcile_books(now=DECEMBER).holds
        close(root, "2026-12", now=LATER)
    assert (closed.control, PeriodClose.objects.count()) == (1080, 2)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for model in APPEND_ONLY:
        table = model._meta.db_table
        for statement in (f"UPDATE {table} SET id = id", f"DELETE FROM {table}"):
            assert "permission denied for table" in refusal(statement, by_role=True)
            if model.objects.exists():
                assert "append-only" in refusal(statement, by_role=False)
    assert "permission denied" in refusal("TRUNCATE scheduler_ledgerentry CASCADE", by_role=True)
    assert LedgerEntry.objects.exists()


@pytest.mark.postgres
def test_a_role_that_nothing_binds_is_refused():
    with pytest.raises(CommandError, match="no role nobody"):
        call_command("grant_role", "nobody")
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        (owner,) = cursor.fetchone()
        cursor.execute("CREATE ROLE deputy")
        cursor.execute(f'GRANT "{owner}" TO deputy')
    with pytest.raises(CommandError, match=r"superuser|owns the tables"):
        call_command("grant_role", owner)
    with pytest.raises(CommandError, match="acts for who does"):
        call_command("grant_role", "deputy")


@pytest.mark.once
def test_sqlite_has_no_roles():
    with pytest.raises(CommandError, match="PostgreSQL"):
        call_command("grant_role", "programs")
