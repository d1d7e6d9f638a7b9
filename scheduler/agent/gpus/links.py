"""Which devices of a node reach each other fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def link_groups(nvml: Any, devices: Sequence[Any]) -> tuple[str, ...]:
    """By device the name of its group; empty if all are alike or the driver does not say.

    Devices with NVLink between them, directly or through others, are one group. Those without any
    belong together if they hang on the same NUMA node. `devices` are handles of the library `nvml`.
    """
    try:
        linked = _components(len(devices), lambda a, b: _has_nvlink(nvml, devices[a], devices[b]))
        near = _components(len(devices), lambda a, b: _is_near(nvml, devices[a], devices[b]))
    except nvml.NVMLError:
        return ("",) * len(devices)
    names = [
        f"nvlink-{first}" if linked.count(first) > 1 else f"numa-{near[row]}"
        for row, first in enumerate(linked)
    ]
    return tuple(names) if len(set(names)) > 1 else ("",) * len(devices)


def _has_nvlink(nvml: Any, one: Any, other: Any) -> bool:
    status = nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == nvml.NVML_P2P_STATUS_OK)


def _is_near(nvml: Any, one: Any, other: Any) -> bool:
    ancestor = nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)
    return bool(ancestor <= nvml.NVML_TOPOLOGY_NODE)


def _components(size: int, are_joined: Callable[[int, int], bool]) -> list[int]:
    """By row the first row it is joined with, directly or through others."""
    first = list(range(size))
    for row in range(size):
        for earlier in range(row):
            if first[row] != first[earlier] and are_joined(earlier, row):
                low, high = sorted((first[row], first[earlier]))
                first = [low if one == high else one for one in first]
    return first
