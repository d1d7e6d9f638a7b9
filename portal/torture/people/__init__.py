"""Those who use the portal while it is hurt, and the limits that they are given before."""

from __future__ import annotations

from portal.torture.people.budgets import Treasurer
from portal.torture.people.crowd import Crowd
from portal.torture.people.limits import prepare

__all__ = ["Crowd", "Treasurer", "prepare"]
