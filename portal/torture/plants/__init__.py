"""Bugs that the harness must find; `portal/torture/under.py` puts them into programs.

Each takes away one of the reasons why a promise holds, in the program that gives it. `kinds` are
the faults, and `jobs` the programs, that bring it to light; a real bug would wait for them longer.
"""

from __future__ import annotations

from collections.abc import Mapping

from portal.torture.plants.asked import ASKED
from portal.torture.plants.grouping import GROUPING
from portal.torture.plants.kinds import Plant
from portal.torture.plants.machinery import MACHINERY
from portal.torture.plants.pools import POOLS
from portal.torture.plants.repeating import REPEATING

PLANTS: Mapping[str, Plant] = {**MACHINERY, **ASKED, **REPEATING, **GROUPING, **POOLS}

__all__ = ["PLANTS", "Plant"]
