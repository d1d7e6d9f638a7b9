"""What really ran in some pools lately, as a job trace that the simulator reads."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.models import Pool
from scheduler.selectors.traces import pools_with_gpus, window_of
from scheduler.simulator.traces.writing import trace_of, write_trace


class Command(BaseCommand):
    """Times, sizes, teams and tiers; no names of people or jobs."""

    help = "Write the jobs of a window as a trace: submit,duration,gpus,vc,team,tier,declared,…"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Which jobs, and where to."""
        parser.add_argument("file", type=Path, help="to write; packed if it ends in .gz")
        parser.add_argument(
            "--pool", action="append", default=[], help="once or more; else all that have GPUs"
        )
        parser.add_argument("--days", type=float, default=7.0, help="so many back")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails if a pool is unknown, nothing ran, or the file cannot be written."""
        if not 0 < options["days"] <= 3660:
            raise CommandError("--days must be above zero and at most 3660")
        found = {pool.name: pool for pool in Pool.objects.filter(name__in=options["pool"])}
        missing = [name for name in options["pool"] if name not in found]
        if missing:
            raise CommandError(f"--pool: there is no pool {', '.join(missing)}")
        pools = [found[name] for name in dict.fromkeys(options["pool"])] or pools_with_gpus()
        now = timezone.now()
        window = window_of(pools, now - timedelta(days=options["days"]), now) if pools else None
        if window is None or not len(window.workload):
            raise CommandError("No job of that time has ended; take more --days.")
        trace = trace_of(window.workload, window.pools, window.teams)
        try:
            write_trace(options["file"], trace, window.past)
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be written: {error}") from None
        left = f", {window.skipped} without GPUs or too large left out" if window.skipped else ""
        self.stdout.write(f"{len(trace)} jobs in {options['file']}{left}.")
