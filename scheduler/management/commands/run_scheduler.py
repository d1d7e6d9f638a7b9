"""The scheduling cycle by hand, for tests and rescue: what the worker does, without Celery."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.loop.cycle import Scheduler
from scheduler.loop.lease import own_name
from scheduler.models import SchedulerLease

TICK_S = 1.0


class Command(BaseCommand):
    """Run one cycle, or one a second for some time, while no other scheduler holds the lease."""

    help = "Run scheduling cycles by hand."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Either of the two is required."""
        choice = parser.add_mutually_exclusive_group(required=True)
        choice.add_argument("--once", action="store_true", help="one cycle")
        choice.add_argument("--seconds", type=float, metavar="N", help="cycles for N seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print one line for each cycle that did something; fails without the lease."""
        seconds = options["seconds"] or 0.0
        if seconds < 0:
            raise CommandError("--seconds must be zero or more")
        scheduler = Scheduler(holder=own_name())
        deadline = time.monotonic() + seconds
        try:
            self._cycle(scheduler, always_print=True)
            while time.monotonic() < deadline:
                time.sleep(min(TICK_S, max(0.0, deadline - time.monotonic())))
                self._cycle(scheduler)
        except KeyboardInterrupt:
            self.stderr.write("stopped")
        finally:
            scheduler.release(timezone.now())

    def _cycle(self, scheduler: Scheduler, *, always_print: bool = False) -> None:
        outcome = scheduler.run_cycle(timezone.now())
        if not outcome.has_lease:
            lease = SchedulerLease.objects.first()
            holder = lease.holder if lease else "another scheduler"
            raise CommandError(f"{holder} schedules now; stop it first, or leave it to its work.")
        if always_print or outcome.started or outcome.reaped or outcome.reasons:
            self.stdout.write(
                f"{outcome.started} started, {outcome.waiting} waiting, {outcome.dropped} dropped, "
                f"{outcome.reaped} reaped, {outcome.reasons} reasons written, "
                f"{outcome.duration_ms:.0f} ms"
            )
