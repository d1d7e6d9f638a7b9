"""Break the product on purpose and check what it promises; prints one JSON object at the end."""

from __future__ import annotations

import json
import signal
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.bench.figures import tell
from portal.embedded.places import StackProblem
from portal.torture.faults import FAULTS
from portal.torture.plants import PLANTS
from portal.torture.proving import prove, with_plant
from portal.torture.reconnect import DIVIDE, is_kept, reconnect
from portal.torture.run import Choice, run
from portal.torture.yard.pools import MOST_POOLS, usual_pools

_MOST_AGENTS = 2_000
_LONG_MINUTES = 5


class Command(BaseCommand):
    """Brings up its own servers and database in a temporary folder; touches no existing data."""

    help = "Kill, stop, cut off and starve a whole installation, and check every promise."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """All have defaults."""
        add = parser.add_argument
        add("--minutes", type=float, default=10.0, help="of faults; default %(default)s")
        add("--seed", type=int, default=1, help="of the dice; default %(default)s")
        add("--agents", type=int, default=8, help="nodes; default %(default)s")
        add("--pools", type=int, help="the nodes are in; default 3, fewer for few nodes")
        add("--divide", type=int, help=f"the usual timers by; default 20, {DIVIDE} to reconnect")
        add("--pause", type=float, default=0.6, help="seconds between faults; default %(default)s")
        add("--fault", action="append", default=[], choices=sorted(FAULTS), help="only these")
        add("--plant", choices=sorted(PLANTS), default="", help="put this bug into the product")
        add("--prove", action="store_true", help="find every planted bug, one after another")
        add("--reconnect", type=int, default=0, help="let so many agents come back at once")
        add("--restore", action="store_true", help="put the database back; in long runs always")
        add("--history", type=Path, help="keep the history in this file")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 1 where an invariant broke."""
        signal.signal(signal.SIGTERM, _interrupt)
        if not 0 < options["minutes"] <= 24 * 60 or not 2 <= options["agents"] <= 64:
            raise CommandError("--minutes must be above 0, --agents 2 to 64")
        pools = options["pools"]
        if pools is None:
            pools = usual_pools(options["agents"])
        if not 1 <= pools <= min(MOST_POOLS, options["agents"]):
            raise CommandError(f"--pools must be 1 to {MOST_POOLS}, and no more than --agents")
        if not 0 <= options["reconnect"] <= _MOST_AGENTS:
            raise CommandError(f"--reconnect must be 1 to {_MOST_AGENTS}")
        choice = Choice(
            minutes=options["minutes"],
            seed=options["seed"],
            agents=options["agents"],
            pools=pools,
            divide=options["divide"] or (DIVIDE if options["reconnect"] else 20),
            pause_s=options["pause"],
            kinds=options["fault"],
            history=options["history"],
            restores=options["restore"] or options["minutes"] >= _LONG_MINUTES,
            tell=tell,
        )
        try:
            if options["prove"]:
                self._prove(choice)
                return
            if options["reconnect"]:
                self._reconnect(choice, options["reconnect"])
                return
            figures = run(with_plant(choice, options["plant"]))
        except (StackProblem, TimeoutError) as problem:
            raise CommandError(str(problem)) from None
        self.stdout.write(json.dumps(figures))
        if figures["breaks"]:
            raise CommandError(f"Invariants were broken {figures['breaks']} times.")

    def _reconnect(self, choice: Choice, agents: int) -> None:
        """Nobody who lived may be given up, and everybody comes back."""
        figures = reconnect(choice, agents)
        self.stdout.write(json.dumps(figures))
        if not is_kept(figures):
            raise CommandError("Somebody was given up, lost, started twice, or is not back.")

    def _prove(self, choice: Choice) -> None:
        """Each bug is a run of its own; all of them must be found."""
        figures = prove(choice)
        self.stdout.write(json.dumps(figures))
        if figures["planted_found"] < figures["planted"]:
            raise CommandError("A planted bug was not found.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
