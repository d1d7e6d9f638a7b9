"""The installation under torture: where it is, its pools, its timers."""

from __future__ import annotations

from portal.torture.yard.installation import SECOND, Yard
from portal.torture.yard.timers import Timers

__all__ = ["SECOND", "Timers", "Yard"]
