"""A bug in pools that jobs choose from."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from portal.torture.plants.kinds import Plant


def _go_anywhere() -> None:
    """Who waits goes to whichever pool has room, and nobody asks whether the job has named it."""
    cycle: Any = import_module("scheduler.loop.cycle")
    moving: Any = import_module("scheduler.services.changing.pools")
    go = cycle.go_elsewhere

    def go_anywhere(seen: Any, memory: Any, **options: Any) -> Any:
        from dataclasses import replace

        names = list(seen.loaded.lines)
        everybody = {int(job): names for job in seen.snapshot.waiting.id}
        loaded = replace(seen.loaded, choices=everybody)
        return go(replace(seen, loaded=loaded), memory, **options)

    cycle.go_elsewhere = go_anywhere
    moving._may_go = lambda job, name, queues: name != job.pool.name and name in queues


POOLS: Mapping[str, Plant] = {
    "pool-unasked": Plant(
        "jobs go to pools that they have not named",
        on_server=_go_anywhere,
        jobs=("long",),
        enough=(40, 0),
        shows=("I38",),
        pools=2,
    ),
}
