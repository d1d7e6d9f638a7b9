"""Everything on this machine: broker, portal, scheduler and one node, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.embedded.places import AlreadyUp, Places, StackProblem
from portal.embedded.programs import LocalNode
from portal.embedded.sample import SampleProblem, run_sample
from portal.embedded.stack import Account, Stack, StackOptions
from scheduler.agent.config import ConfigProblem, read_identity
from scheduler.agent.gpus import GpuProblem, NvmlGpus
from scheduler.management.databases import database_in_words


class Command(BaseCommand):
    """Start the embedded default and keep it up; a second start resumes where it was."""

    help = "Start the portal, its broker, its workers and a local node; Ctrl-C stops all."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=0, help="default: the last one, or 8000")
        parser.add_argument("--demo", action="store_true", help="with people and a first job")
        parser.add_argument("--exit", action="store_true", help="stop when the first job is over")
        parser.add_argument("--no-node", action="store_true", help="no node on this machine")
        parser.add_argument(
            "--simulated-gpus",
            type=int,
            default=8,
            metavar="N",
            help="where the machine has no GPU of its own; counts when its node enrols, at the "
            "first start (default %(default)s)",
        )
        parser.add_argument("--reload", action="store_true", help="restart on changed code")

    def handle(self, *args: Any, **options: Any) -> None:
        _heed_signals()
        if settings.DATABASE_URL:
            self._tell(f"the database is {database_in_words()}, as DATABASE_URL says")
        stack = Stack(
            Places(Path(settings.STATE_DIR), Path(settings.RUN_DIR)),
            StackOptions(
                port=options["port"],
                nodes=() if options["no_node"] else (_local_node(options["simulated_gpus"]),),
                settings=settings.SETTINGS_MODULE,
                with_demo=options["demo"],
                api_tokens_for=("alice",) if options["demo"] else (),
                reloads=options["reload"],
                needs_nodes=False,
            ),
            tell=self._tell,
        )
        try:
            with stack:
                self._greet(stack, options)
                if options["demo"]:
                    self._first_job(stack, is_all=options["exit"])
                if not options["exit"]:
                    self._stay(stack)
                self._tell("stopping")
        except AlreadyUp as problem:
            self.stdout.write(f"Trainyard is {problem}.")
        except (StackProblem, SampleProblem) as problem:
            raise CommandError(str(problem)) from None
        except OSError as problem:
            raise CommandError(
                f"{problem}. Look whether {stack.places.state} and {stack.places.run} are this "
                "user's and whether their disk is full."
            ) from None
        except KeyboardInterrupt:
            self.stdout.write("Stopped. The next start resumes; jobs that still run are adopted.")

    def _greet(self, stack: Stack, options: dict[str, Any]) -> None:
        say = self.stdout.write
        say(f"\nTrainyard is up: {stack.address}\n")
        self._list_accounts(stack.accounts)
        say(f"Passwords are kept in {stack.places.state / 'accounts.txt'}")
        for node in stack.options.nodes:
            # What it was enrolled with: --simulated-gpus counts then, and no more afterwards.
            with suppress(ConfigProblem, OSError):
                gpus = read_identity(stack.places.node(node.name)).simulated_gpus
                if gpus:
                    say(f"Node {node.name} has {gpus} simulated GPUs; jobs run for real.")
        if options["demo"]:
            say(_TO_TRY.format(address=stack.address))
        sys.stdout.flush()

    def _list_accounts(self, accounts: tuple[Account, ...]) -> None:
        if not accounts:
            return
        self.stdout.write("Sign in with one of these; they are shown this once:\n")
        for account in accounts:
            self.stdout.write(f"  {account.username:<8} {account.password}   {account.words}")
        self.stdout.write("")

    def _first_job(self, stack: Stack, *, is_all: bool) -> None:
        """Unless it is all that was asked for, its failure stops nothing."""
        self._tell("the first job: handwritten digits, as alice in vision/digits")
        token = stack.api_tokens["alice"]
        try:
            result = run_sample(stack.address, token, joins=True, tell=self._tell)
        except SampleProblem as problem:
            if is_all:
                raise
            self.stdout.write(f"The first job did not succeed: {problem}\n")
            return
        self.stdout.write(
            f"Job {result.job_id} succeeded: accuracy {result.final_accuracy:.3f}, "
            f"{result.gpu_seconds} GPU-seconds, {result.cost:.4f} {result.currency}. See it at "
            f"{stack.address}/jobs/{result.job_id}/\n"
        )

    def _stay(self, stack: Stack) -> None:
        self.stdout.write("Ctrl-C stops everything.")
        sys.stdout.flush()
        while True:
            time.sleep(2)
            stack.tend()

    def _tell(self, words: str) -> None:
        self.stderr.write(f"  {time.strftime('%H:%M:%S')} {words}")
        self.stderr.flush()


_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TO_TRY = """\
To try:
  1. Sign in as alice at {address}/ and open her job, its log and its charts.
  2. Submit another one: {address}/jobs/new/?from=sample
  3. Ask for more GPUs than are free and see why it waits: {address}/queue/
  4. As admin, drain the node: {address}/cluster/nodes/
"""


def _local_node(simulated_gpus: int) -> LocalNode:
    try:
        has_real_ones = bool(NvmlGpus().inventory())
    except GpuProblem:
        has_real_ones = False
    return LocalNode("local", simulated_gpus=0 if has_real_ones else simulated_gpus)


def _heed_signals() -> None:
    """The first one ends this in order. `nohup` has SIGHUP ignored, and so it stays."""
    for number in _ENDS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second one would leave programs behind that only begin to stop.
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
