"""Whether books and audit still say what was written: for an operator, or a nightly job."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.services.sealing import verify_audit
from scheduler.management.databases import database_in_words
from scheduler.services.books import verify_ledger


class Command(BaseCommand):
    """Reads everything, changes nothing; fails where something does not hold."""

    help = "Check the chain of entries, their lines, the statements and the audit; name what broke."

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 with the breaks on stderr."""
        report = verify_ledger()
        self.stdout.write(
            f"{report.entries} entries and {report.lines} lines of {database_in_words()} were read."
        )
        audit = verify_audit()
        self.stdout.write(
            f"{audit.events} audit events in {audit.seals} seals were read, {audit.unsealed} wait "
            f"for one; the last seal is {audit.head}."
        )
        breaks = [*report.breaks, *([f"audit: {audit.broken}"] if audit.broken else [])]
        for words in breaks:
            self.stderr.write(words)
        if breaks:
            raise CommandError("They do not hold; restore a backup beside them and compare.")
        self.stdout.write("The chains hold, debits equal credits, statements add up.")
