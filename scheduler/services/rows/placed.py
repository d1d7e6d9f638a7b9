"""Where a rank of an attempt goes, as plans and rooms name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedOn:
    """One rank's node and devices; `cpus` and `memory_mib` are taken from that node."""

    node_id: int
    rank: int
    device_ids: tuple[int, ...]
    cpus: int
    memory_mib: int
