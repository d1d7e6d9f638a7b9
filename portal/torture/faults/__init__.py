"""Faults by kind; the numbers are those of the plan of faults in the package's README."""

from __future__ import annotations

from collections.abc import Mapping

from portal.torture.faults import network, nodes, servers
from portal.torture.faults.hand import Fault, Hand

FAULTS: Mapping[str, Fault] = {
    fault.name: fault for fault in (*nodes.FAULTS, *network.FAULTS, *servers.FAULTS)
}

__all__ = ["FAULTS", "Fault", "Hand"]
