"""The same window of jobs with another quota, weight, pool size or policy, in the simulator."""

from __future__ import annotations

import json
from argparse import ArgumentParser
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
from scheduler.simulator.traces.jobs import workload_in
from scheduler.simulator.traces.reading import ALL, Trace, TraceInvalid, declared_s, read_trace
from scheduler.simulator.traces.writing import trace_of, write_trace
from scheduler.simulator.whatif import Run, Setting, compare, run_in


class Command(BaseCommand):
    """Run the jobs twice, as it is and as it would be, and print waits, use, fairness and cost."""

    help = "Compare a window of past jobs with what another setting would have made of it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where the jobs come from, and what to change."""
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument(
            "--pool",
            action="append",
            help="the jobs of this pool, from the database; or of several",
        )
        source.add_argument("--trace", type=Path, help="a CSV file: submit,duration,gpus,vc")
        parser.add_argument("--days", type=float, default=7.0, help="with --pool: so many back")
        parser.add_argument("--nodes", type=int, help="with --trace: nodes of the one pool")
        parser.add_argument(
            "--pools", help="with --trace: nodes of several pools, vc=n,vc=n; others are left out"
        )
        parser.add_argument("--gpus-per-node", type=int, default=8, help="with --trace")
        parser.add_argument(
            "--durations",
            default="exact",
            help="with --trace: exact, hidden, stated (its column declared), noisy:F, padded:F",
        )
        parser.add_argument("--base", action="append", default=[], metavar="CHANGE", help=CHANGES)
        parser.add_argument(
            "--change", action="append", default=[], metavar="CHANGE", help="as --base, the second"
        )
        parser.add_argument("--price", type=float, help="of a GPU hour")
        parser.add_argument("--write-base", type=Path, help="the first run as a trace (.csv, .gz)")
        parser.add_argument("--write", type=Path, help="the second run as a trace (.csv, .gz)")

    def handle(self, *args: Any, **options: Any) -> None:
        """Fails if a change is unknown, or makes some job wait for ever."""
        window = _of_trace(options) if options["trace"] else _of_pools(options)
        teams = Teams.equal(window.teams)
        base = Setting(nodes=window.nodes, teams=teams, names=window.pools)
        try:
            base = changed(base, options["base"])
            before = run_in(window.workload, base)
            after = run_in(window.workload, changed(base, options["change"]))
        except (ChangeInvalid, ReplayStuck) as error:
            raise CommandError(str(error)) from None
        prices = None if options["price"] is None else (options["price"],) * len(window.pools)
        found = compare(before, after, len(window.workload), prices)
        _write(options["write_base"], window, before)
        _write(options["write"], window, after)
        self.stdout.write(json.dumps({**found, "skipped": window.skipped}, indent=2))


def _write(path: Path | None, window: Window, run: Run) -> None:
    """What became of the jobs, if it was asked for."""
    if path is None:
        return
    trace = trace_of(window.workload, window.pools, window.teams)
    try:
        write_trace(path, trace, run.results(len(window.workload)))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error}") from None


def _of_pools(options: dict[str, Any]) -> Window:
    names = options["pool"]
    found = {pool.name: pool for pool in Pool.objects.filter(name__in=names)}
    for name in names:
        if name not in found:
            raise CommandError(f"--pool: there is no pool {name}")
    if not 0 < options["days"] <= 3660:
        raise CommandError("--days must be above zero and at most 3660")
    now = timezone.now()
    pools = [found[name] for name in dict.fromkeys(names)]
    window = window_of(pools, now - timedelta(days=options["days"]), now)
    if not len(window.workload):
        raise CommandError("No job of that time has ended; take more --days.")
    return window


def _of_trace(options: dict[str, Any]) -> Window:
    """The teams are those of the trace; in one pool its `vc` are, if it names no teams."""
    per_node = options["gpus_per_node"]
    try:
        trace = read_trace(options["trace"])
        declared = declared_s(trace, options["durations"], 42)
        pools = _sizes(options, trace)
    except (TraceInvalid, OSError, ValueError) as error:
        raise CommandError(f"--trace: {error}") from None
    if per_node < 1:
        raise CommandError("--gpus-per-node must be at least 1")
    owners = trace.team or (trace.pool if len(pools) == 1 else (ALL,) * len(trace))
    work, teams = workload_in(trace, declared, pools, owners, gpus_per_node=per_node)
    nodes = tuple(pools.values())
    return Window(
        work,
        nodes[0] if len(nodes) == 1 else nodes,
        teams,
        len(trace) - len(work),
        pools=tuple(pools),
    )


def _sizes(options: dict[str, Any], trace: Trace) -> dict[str, int]:
    """Nodes by pool; the name ALL takes the jobs of the whole trace."""
    if not options["pools"]:
        if not options["nodes"] or options["nodes"] < 1:
            raise ValueError("it needs --nodes of at least 1, or --pools vc=n,vc=n")
        return {ALL: options["nodes"]}
    sizes = dict(part.partition("=")[::2] for part in options["pools"].split(","))
    if not all(size.isdecimal() and int(size) > 0 for size in sizes.values()):
        raise ValueError(f"--pools {options['pools']!r} is not vc=nodes,vc=nodes")
    unknown = sorted(sizes.keys() - set(trace.pool))
    if unknown:
        raise ValueError(f"--pools names {', '.join(unknown)}, but no job of the trace does")
    return {name: int(size) for name, size in sizes.items()}
