"""A role of PostgreSQL for the running programs: it adds to the books and never changes them."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, models, transaction

from accounts.models import AuditEvent, AuditSeal
from scheduler.models import LedgerEntry, PeriodClose, Statement, StatementLine

APPEND_ONLY: tuple[type[models.Model], ...] = (
    LedgerEntry,
    PeriodClose,
    Statement,
    StatementLine,
    AuditEvent,
    AuditSeal,
)
_CHANGES = ("UPDATE", "DELETE", "TRUNCATE")


class Command(BaseCommand):
    """Run it as who owns the tables, and again after every upgrade: twice is once.

    Optional: with one role for everything the triggers refuse the same.
    """

    help = "Let a role of PostgreSQL run Trainyard, with INSERT and SELECT only on books and audit."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which role; and whether to look only."""
        parser.add_argument("role", help="of the programs' DATABASE_URL; made with `createuser`")
        parser.add_argument("--sql", action="store_true", help="print the statements, do nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails where the role could change the books all the same, and grants nothing then."""
        if connection.vendor != "postgresql":
            raise CommandError("Roles are PostgreSQL's: set DATABASE_URL to the owner's.")
        role: str = options["role"]
        wanted = list(statements(role))
        if options["sql"]:
            self.stdout.write("".join(f"{statement};\n" for statement in wanted))
            return
        with transaction.atomic(), connection.cursor() as cursor:
            self._check(cursor, role)
            for statement in wanted:
                cursor.execute(statement)
            for table in _tables():
                for change in _CHANGES:
                    cursor.execute("SELECT has_table_privilege(%s, %s, %s)", [role, table, change])
                    if cursor.fetchone()[0]:
                        raise CommandError(
                            f"{role} may still {change} {table}: by another role it is a member "
                            "of, or as everybody. Take that away, then try again."
                        )
        self.stdout.write(f"{role} may run Trainyard and only add to {', '.join(_tables())}.")

    def _check(self, cursor: Any, role: str) -> None:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", [role])
        found = cursor.fetchone()
        if found is None:
            raise CommandError(f"There is no role {role}: make it with `createuser {role}`.")
        if found[0]:
            raise CommandError(f"{role} is a superuser, whom nothing binds; take another role.")
        cursor.execute(
            "SELECT pg_has_role(%s, tableowner, 'MEMBER') FROM pg_tables WHERE tablename = %s",
            [role, LedgerEntry._meta.db_table],
        )
        if cursor.fetchone()[0]:
            raise CommandError(f"{role} owns the tables or acts for who does; take another role.")


def statements(role: str) -> Iterator[str]:
    """What the role may do, in the order in which it is said."""
    name = quoted(role)
    every = "SELECT, INSERT, UPDATE, DELETE"
    yield f"GRANT USAGE ON SCHEMA public TO {name}"
    yield f"GRANT {every} ON ALL TABLES IN SCHEMA public TO {name}"
    yield f"GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {name}"
    yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT {every} ON TABLES TO {name}"
    yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {name}"
    yield f"REVOKE {', '.join(_CHANGES)} ON {', '.join(_tables())} FROM {name}"


def quoted(role: str) -> str:
    """A role's name as PostgreSQL reads names; it has quotes of its own, doubled."""
    return '"' + role.replace('"', '""') + '"'


def _tables() -> list[str]:
    return [model._meta.db_table for model in APPEND_ONLY]
