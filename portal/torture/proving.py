"""The harness proves itself: every planted bug is reported as a break."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from portal.bench.figures import machine
from portal.torture.plants import PLANTS
from portal.torture.run import Choice, run

# Few nodes are up soon, waits are cut short, and a run ends with the first break.
_DIVIDE, _AGENTS, _PAUSE_S, _MINUTES = 60, 2, 1.0, 1.5


def with_plant(choice: Choice, name: str) -> Choice:
    """A run with a bug in it and what brings it to light, that ends as soon as it has."""
    if not name:
        return choice
    plant = PLANTS[name]
    kinds = choice.kinds or plant.kinds
    return replace(
        choice,
        plant=name,
        sql=plant.sql,
        kinds=kinds,
        jobs=plant.jobs,
        watch=plant.shows,
        with_standby=plant.with_standby,
        with_helpers=plant.with_helpers,
        joins=plant.joins,
        repeats=plant.repeats,
        groups=plant.groups,
        pools=plant.pools,
        restores=False,
    )


def prove(choice: Choice) -> dict[str, Any]:
    """A short run for each bug; how many were found, by which invariants, and after how long.

    `seconds` count from the first command to the verdict, starting everything included. A bug
    that the dice have missed gets a second run, with twice as much: `runs`.
    """
    found: dict[str, Any] = {}
    for name in PLANTS:
        began = time.monotonic()
        choice.tell(f"planting {name}")
        runs, by = 1, found_by(choice, name)
        if not by:
            choice.tell(f"{name}: not found, once more")
            runs, by = 2, found_by(replace(choice, seed=choice.seed + 1), name, times=2)
        seconds = round(time.monotonic() - began)
        found[name] = {"found_by": by, "seconds": seconds, "runs": runs}
        choice.tell(f"{name}: {', '.join(by) or 'not found'} after {seconds} s")
    return {
        "torture": "prove",
        "seed": choice.seed,
        "planted": len(found),
        "planted_found": sum(bool(each["found_by"]) for each in found.values()),
        "longest_s": max(each["seconds"] for each in found.values()),
        "seconds": sum(each["seconds"] for each in found.values()),
        "plants": found,
        **machine(),
    }


def found_by(choice: Choice, name: str, *, times: int = 1) -> list[str]:
    """Those of the invariants that have to show this bug which a short run broke."""
    plant = PLANTS[name]
    short = replace(
        choice,
        minutes=_MINUTES * times,
        enough=(plant.enough[0] * times, plant.enough[1] * times),
        settle_s=plant.settle_s,
        divide=_DIVIDE,
        agents=_AGENTS,
        pause_s=_PAUSE_S,
    )
    figures = run(with_plant(short, name))
    broken = {words.partition(":")[0] for words in figures["broken"]}
    return sorted(broken & set(plant.shows))
