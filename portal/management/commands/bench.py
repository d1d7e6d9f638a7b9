"""Benchmarks behind one command; each prints one JSON object as its last line."""

from __future__ import annotations

import json
import signal
from argparse import ArgumentParser
from collections.abc import Mapping
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.bench import kill, latency, logs, loop, packing, replay, takeover
from portal.bench.deciding import cycle, gang, topology
from portal.bench.faces import client, pages
from portal.bench.figures import MOST, breaches
from portal.bench.load import agents, queue, restart, throughput
from portal.bench.money import ledger, reports
from portal.embedded.places import StackProblem

WORKLOADS = {
    "agents": agents,
    "client": client,
    "cycle": cycle,
    "gang": gang,
    "kill": kill,
    "latency": latency,
    "ledger": ledger,
    "logs": logs,
    "loop": loop,
    "packing": packing,
    "pages": pages,
    "queue": queue,
    "replay": replay,
    "reports": reports,
    "restart": restart,
    "takeover": takeover,
    "throughput": throughput,
    "topology": topology,
}


class Command(BaseCommand):
    """Brings up its own servers, if any, in a temporary folder; touches no existing data."""

    help = "Measure one workload; `bench WORKLOAD --help` says what it does and takes."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="workload", required=True, metavar="WORKLOAD")
        for name, workload in WORKLOADS.items():
            workload.add_arguments(commands.add_parser(name, help=(workload.__doc__ or "").strip()))

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _interrupt)
        workload = WORKLOADS[options["workload"]]
        for name, most in getattr(workload, "MOST", MOST).items():
            if not 1 <= options.get(name, 1) <= most:
                raise CommandError(f"--{name.replace('_', '-')} must be 1 to {most}")
        try:
            figures = workload.run(options)
        except (StackProblem, TimeoutError) as problem:
            raise CommandError(str(problem)) from None
        self.answer(figures, is_strict=options.get("strict", False))

    def answer(self, figures: Mapping[str, Any], *, is_strict: bool) -> None:
        """The figures as the last line; where asked for, what is over its budget is a failure."""
        self.stdout.write(json.dumps(figures))
        if is_strict and (over := breaches(figures)):
            raise CommandError("\n".join(["over budget:", *over]))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
