"""Faults by kind; the numbers are those of the plan of faults in the package's README."""

from __future__ import annotations

from collections.abc import Mapping

from portal.torture.faults import (
    database,
    hints,
    machines,
    network,
    nodes,
    receivers,
    servers,
    sleeping,
)
from portal.torture.faults.hand import Fault, Hand

FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for where in (nodes, sleeping, machines, network, servers, hints, receivers, database)
    for fault in where.FAULTS
}

__all__ = ["FAULTS", "Fault", "Hand"]
