"""The same window of jobs with another quota, weight, pool size or policy, in the simulator."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.models import Pool
from scheduler.selectors.traces import Window, window_of
from scheduler.simulator.changes import CHANGES, ChangeInvalid, changed
from scheduler.simulator.replay import ReplayStuck
from scheduler.simulator.teams import Teams
from scheduler.simulator.trace import TraceInvalid, declared_s, read_trace
from scheduler.simulator.whatif import Setting, compare
from scheduler.simulator.workload import workload_of


class Command(BaseCommand):
    """Run the jobs twice, as it is and as it would be, and print waits, use, fairness and cost."""

    help = "Compare a window of past jobs with what another setting would have made of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where the jobs come from, and what to change."""
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--pool", help="the jobs of this pool, from the database")
        source.add_argument("--trace", type=Path, help="a CSV file: submit,duration,gpus,vc")
        parser.add_argument("--days", type=float, default=7.0, help="with --pool: so many back")
        parser.add_argument("--nodes", type=int, help="with --trace: nodes of the pool")
        parser.add_argument("--gpus-per-node", type=int, default=8, help="with --trace")
        parser.add_argument(
            "--durations", default="exact", help="with --trace: exact, hidden, noisy:F, padded:F"
        )
        parser.add_argument("--base", action="append", default=[], metavar="CHANGE", help=CHANGES)
        parser.add_argument(
            "--change", action="append", default=[], metavar="CHANGE", help="as --base, the second"
        )
        parser.add_argument("--price", type=float, help="of a GPU hour")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails if a change is unknown, or makes some job wait for ever."""
        window = self._of_trace(options) if options["trace"] else self._of_pool(options)
        base = Setting(nodes=window.nodes, teams=Teams.equal(window.teams))
        try:
            base = changed(base, options["base"])
            found = compare(
                window.workload, base, changed(base, options["change"]), options["price"]
            )
        except (ChangeInvalid, ReplayStuck) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(json.dumps({**found, "skipped": window.skipped}, indent=2))

    def _of_pool(self, options: dict[str, Any]) -> Window:
        pool = Pool.objects.filter(name=options["pool"]).first()
        if pool is None:
            raise CommandError(f"--pool: there is no pool {options['pool']}")
        if not 0 < options["days"] <= 3660:
            raise CommandError("--days must be above zero and at most 3660")
        now = timezone.now()
        window = window_of(pool, now - timedelta(days=options["days"]), now)
        if not len(window.workload):
            raise CommandError("No job of that time has ended; take more --days.")
        return window

    def _of_trace(self, options: dict[str, Any]) -> Window:
        if not options["nodes"] or options["nodes"] < 1 or options["gpus_per_node"] < 1:
            raise CommandError("--trace needs --nodes and --gpus-per-node of at least 1")
        try:
            trace = read_trace(options["trace"])
            declared = declared_s(trace, options["durations"], 42)
        except (TraceInvalid, OSError) as error:
            raise CommandError(f"--trace: {error}") from None
        sizes = {"nodes": options["nodes"], "gpus_per_node": options["gpus_per_node"]}
        rows = trace.sorted_rows()
        rows = rows[trace.gpus[rows] <= sizes["nodes"] * sizes["gpus_per_node"]]
        work = workload_of(trace, declared, rows, **sizes)
        names = tuple(sorted(set(trace.pool)))
        number = {name: row for row, name in enumerate(names)}
        team = rows.copy()
        team[:] = [number[trace.pool[row]] for row in rows.tolist()]
        return Window(replace(work, team=team), sizes["nodes"], names, len(trace) - len(work))
