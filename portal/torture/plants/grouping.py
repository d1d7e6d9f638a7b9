"""A bug in groups of which the newest job counts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from portal.torture.plants.kinds import Plant


def _leave_older() -> None:
    """A newer job of a group ends none of those that wait."""
    groups: Any = import_module("scheduler.services.submitting.groups")
    groups.Members.leaving = lambda self, policy: []


GROUPING: Mapping[str, Plant] = {
    "older-left": Plant(
        "older jobs of a group wait on when a newer one has come",
        on_server=_leave_older,
        enough=(40, 0),
        shows=("I37",),
        groups=True,
    ),
}
