"""Whether the books still say what was written: for an operator, or a nightly job."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.services.books import verify_ledger


class Command(BaseCommand):
    """Reads everything, changes nothing; fails where something does not hold."""

    help = "Check the chain of entries, their lines and the statements; name what is broken first."

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 with the breaks on stderr."""
        report = verify_ledger()
        self.stdout.write(f"{report.entries} entries and {report.lines} lines were read.")
        for words in report.breaks:
            self.stderr.write(words)
        if report.breaks:
            raise CommandError("The books do not hold; restore them from a backup and compare.")
        self.stdout.write("The chain holds, debits equal credits, statements add up.")
