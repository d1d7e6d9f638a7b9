"""The main job, once, with everything real; one JSON line tells how it went."""

from __future__ import annotations

import json
import signal
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.embedded.places import StackProblem
from portal.embedded.sample import SampleProblem, SampleResult, run_sample
from portal.embedded.temporary import temporary_stack
from scheduler.money import cost_of


class Command(BaseCommand):
    """Touches no existing data: a fresh temporary folder, free ports, its own broker."""

    help = "Start everything in a temporary folder, run the digits sample, print one JSON line."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--timeout-s", type=float, default=120, help="default %(default)s")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            with temporary_stack(tell=self._tell) as stack:
                result = run_sample(
                    stack.address,
                    stack.api_tokens["alice"],
                    timeout_s=options["timeout_s"],
                    tell=self._tell,
                )
        except (StackProblem, SampleProblem) as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(json.dumps(_figures(result)))
        for complaint in _complaints(result):
            raise CommandError(complaint)

    def _tell(self, words: str) -> None:
        self.stderr.write(f"  {time.strftime('%H:%M:%S')} {words}")
        self.stderr.flush()


def _figures(result: SampleResult) -> dict[str, Any]:
    return {
        "state": result.state,
        "submit_to_start_ms": result.submit_to_start_ms,
        "submit_to_end_s": result.submit_to_end_s,
        "log_lines": result.log_lines,
        "samples": result.samples,
        "gpu_seconds": result.gpu_seconds,
        "cost": str(result.cost),
        "currency": result.currency,
        "final_accuracy": result.final_accuracy,
    }


def _complaints(result: SampleResult) -> Iterator[str]:
    if result.final_accuracy <= 0.9:
        yield f"the final accuracy is {result.final_accuracy}, not above 0.9"
    if result.log_lines < result.epochs:
        yield f"{result.log_lines} log lines for {result.epochs} epochs"
    if result.samples < 3:
        yield f"only {result.samples} samples"
    wanted = cost_of(result.gpu_seconds, result.unit_price)
    # The API shows money to ten decimals and may round each line once.
    if result.cost <= 0 or abs(result.cost - wanted) > wanted / 10**6:
        yield f"the cost is {result.cost}; {result.gpu_seconds} GPU-seconds cost {wanted}"


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
