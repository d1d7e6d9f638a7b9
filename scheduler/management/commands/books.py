"""Months of the books on a terminal: close, correct, reopen. Who runs it names a bookkeeper."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from accounts.errors import DomainError
from accounts.models import User
from accounts.selectors import person_named
from scheduler.ledger.currencies import from_minor
from scheduler.services import books


class Command(BaseCommand):
    """The same services and rules as everywhere: `--by` must be somebody who keeps the books."""

    help = "Soft-close, close, correct or reopen a month of the books."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do with which month, in whose name."""
        parser.add_argument("verb", choices=("soft-close", "close", "correct", "reopen"))
        parser.add_argument("month", help="such as 2026-11")
        parser.add_argument("--by", required=True, help="user name of a bookkeeper")
        parser.add_argument("--reason", default="", help="of a correction or a reopening")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails with what stands in the way."""
        person = person_named(options["by"])
        if person is None:
            raise CommandError(f"There is nobody called {options['by']}.")
        try:
            self.stdout.write(_do(person, options["verb"], options["month"], options["reason"]))
        except books.CloseBlocked as blocked:
            for finding in blocked.findings:
                self.stderr.write(f"{finding.subject}: {finding.words}")
            raise CommandError(f"{options['month']} cannot be closed yet.") from None
        except DomainError as refused:
            raise CommandError(refused.detail) from None


def _do(person: User, verb: str, month: str, reason: str) -> str:
    if verb == "soft-close":
        return f"{month} is {books.soft_close_period(actor=person, period=month).state}."
    if verb == "reopen":
        row = books.reopen_period(actor=person, period=month, reason=reason)
        return f"{month} is {row.state}; a closed month waits for a second person."
    if verb == "correct":
        posted = books.correct_period(actor=person, period=month, reason=reason)
        return f"{len(posted)} correction entries were posted."
    closed = books.close_period(actor=person, period=month)
    owed = from_minor(closed.control, closed.period.currency)
    return (
        f"{month} is closed as version {closed.version}: {closed.lines} lines, "
        f"{closed.statements.count()} statements, {owed} {closed.period.currency}."
    )
