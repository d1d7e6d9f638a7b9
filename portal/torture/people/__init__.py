"""Those who use the portal while it is hurt."""

from __future__ import annotations

from portal.torture.people.crowd import Crowd

__all__ = ["Crowd"]
