"""Whether the invariants that rows tell of hold on live data: for an operator, now."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.management.databases import database_in_words
from scheduler.services.invariants import check_invariants

_ANY_TIME_S = float("inf")


class Command(BaseCommand):
    """What is done every night, now; writes nothing but the row with what it found."""

    help = "Check on live data what Trainyard promises; name what broke, print one JSON object."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Nothing: what is open, and what came since the last check that found nothing."""
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--all", action="store_true", help="look at everything there ever was")
        how.add_argument("--since", type=_day, help="look from this day on, such as 2026-11-25")
        parser.add_argument(
            "--longest", type=float, default=_ANY_TIME_S, help="seconds at most; default: no limit"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 with the breaks on stderr."""
        found = check_invariants(
            since=options["since"], everything=options["all"], longest_s=options["longest"]
        )
        for words in found.breaks:
            self.stderr.write(words)
        said = {
            "invariants": "live",
            "database": database_in_words(),
            "since": found.since and found.since.isoformat(),
            "seconds": found.took_s,
            "whole": found.is_whole,
            "looked_at": found.looked_at,
            "breaks": found.broken,
        }
        self.stdout.write(json.dumps(said))
        if found.broken:
            raise CommandError(f"Invariants are broken {found.broken} times; see above.")
        if not found.is_whole:
            raise CommandError("There was not time for all; give more with --longest.")


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no day such as 2026-11-25") from None
