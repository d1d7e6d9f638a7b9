"""The harness proves itself: every planted bug is reported as a break."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from portal.bench.figures import machine
from portal.torture.plants import PLANTS
from portal.torture.run import Choice, run

# Long enough for a fault of each kind that a bug needs, with waits cut short.
_MINUTES, _DIVIDE, _AGENTS, _PAUSE_S = 0.8, 60, 3, 2.0


def with_plant(choice: Choice, name: str) -> Choice:
    """The same run with a bug in it, and with the faults that bring it to light."""
    if not name:
        return choice
    plant = PLANTS[name]
    kinds = choice.kinds or plant.kinds
    return replace(choice, plant=name, sql=plant.sql, kinds=kinds, jobs=plant.jobs)


def prove(choice: Choice) -> dict[str, Any]:
    """A short run for each bug; how many were found, by which invariants, and after how long.

    `seconds` count from the first command to the verdict, starting everything included.
    """
    found: dict[str, Any] = {}
    for name in PLANTS:
        began = time.monotonic()
        choice.tell(f"planting {name}")
        by = found_by(choice, name)
        seconds = round(time.monotonic() - began)
        found[name] = {"found_by": by, "seconds": seconds}
        choice.tell(f"{name}: {', '.join(by) or 'not found'} after {seconds} s")
    return {
        "torture": "prove",
        "seed": choice.seed,
        "planted": len(found),
        "planted_found": sum(bool(each["found_by"]) for each in found.values()),
        "plants": found,
        **machine(),
    }


def found_by(choice: Choice, name: str) -> list[str]:
    """The invariants that a short run with this bug broke."""
    short = replace(choice, minutes=_MINUTES, divide=_DIVIDE, agents=_AGENTS, pause_s=_PAUSE_S)
    figures = run(with_plant(short, name))
    return sorted({words.partition(":")[0] for words in figures["breaks"]})
