"""Sum up use and waste by day now, or anew: for an operator after an upgrade or a repair."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.services.timeline.readings.hours import sum_hours
from scheduler.services.timeline.wasted_days import sum_again, sum_days


class Command(BaseCommand):
    """What the tasks of each hour and minute do, to the end; pages say the same before, meanwhile
    and after."""

    help = (
        "Sum up the days of use and waste that are over and not summed, and today's readings; "
        "--again: also others."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`--again`: days that are summed already, too; all, or those from one to another."""
        parser.add_argument("--again", action="store_true", help="sum days that are summed, too")
        parser.add_argument("--from", dest="since", default="", help="first day; with --again")
        parser.add_argument("--to", dest="until", default="", help="last day; with --again")

    def handle(self, *args: Any, **options: Any) -> None:
        """Says how many days were summed; fails with what is wrong."""
        since, until = options["since"], options["until"]
        if (since or until) and not options["again"]:
            raise CommandError("--from and --to choose what is summed --again; say that, too.")
        if options["again"]:
            first = _day(since, "--from") if since else date(1970, 1, 1)
            last = _day(until, "--to") if until else date(2999, 12, 31)
            if last < first:
                raise CommandError(f"--to: it lies before {first}, the first day.")
            sum_again(_second(first), _second(last + timedelta(days=1)))
        sum_hours(now=timezone.now())
        self.stdout.write(f"{sum_days(now=timezone.now())} days were summed.")


def _day(text: str, name: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{name}: write a day such as 2026-11-03.") from None


def _second(day: date) -> int:
    return int(datetime.combine(day, time(), UTC).timestamp())
