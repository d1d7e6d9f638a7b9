"""A bug in where jobs may start."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from portal.torture.plants.kinds import Plant


def _start_anywhere() -> None:
    """Every node is taken for one of every pool."""
    core: Any = import_module("scheduler.engine.board.core")
    build = core.Board.__init__

    def build_open(self: Any, *args: Any, **options: Any) -> None:
        build(self, *args, **options)
        self.in_pool = self.in_pool | True

    core.Board.__init__ = build_open


POOLS: Mapping[str, Plant] = {
    "pool-unasked": Plant(
        "jobs start in pools that they have not named",
        on_server=_start_anywhere,
        enough=(20, 0),
        shows=("I38",),
        pools=2,
    ),
}
