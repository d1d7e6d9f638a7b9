"""Which devices of a node reach each other fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def link_groups(nvml: Any, devices: Sequence[Any]) -> tuple[str, ...]:
    """By device the path to its group, as `numa-0/pcie-2`; empty if all are alike or the driver
    does not say.

    Devices with NVLink between them, directly or through others, are one group. Those without any
    belong together if they hang on the same PCIe switches. Groups on one NUMA node follow each
    other, where a node has several. `devices` are handles of the library `nvml`.
    """
    size = len(devices)
    try:
        linked = _components(size, lambda a, b: _has_nvlink(nvml, devices[a], devices[b]))
        switched = _components(
            size, lambda a, b: _is_within(nvml, devices[a], devices[b], nvml.NVML_TOPOLOGY_MULTIPLE)
        )
        near = _components(
            size, lambda a, b: _is_within(nvml, devices[a], devices[b], nvml.NVML_TOPOLOGY_NODE)
        )
    except nvml.NVMLError:
        return ("",) * size
    names = []
    for row, first in enumerate(linked):
        if linked.count(first) > 1:
            members = {near[one] for one in range(size) if linked[one] == first}
            names.append((near[row] if len(members) == 1 else None, f"nvlink-{first}"))
        elif switched.count(switched[row]) > 1:
            names.append((near[row], f"pcie-{switched[row]}"))
        else:
            names.append((near[row], ""))
    has_several = len(set(near)) > 1
    paths = tuple(
        "/".join(
            part
            for part in (f"numa-{numa}" if has_several and numa is not None else "", name)
            if part
        )
        for numa, name in names
    )
    return paths if len(set(paths)) > 1 else ("",) * size


def _has_nvlink(nvml: Any, one: Any, other: Any) -> bool:
    status = nvml.nvmlDeviceGetP2PStatus(one, other, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == nvml.NVML_P2P_STATUS_OK)


def _is_within(nvml: Any, one: Any, other: Any, level: int) -> bool:
    return bool(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other) <= level)


def _components(size: int, are_joined: Callable[[int, int], bool]) -> list[int]:
    """By row the first row it is joined with, directly or through others."""
    first = list(range(size))
    for row in range(size):
        for earlier in range(row):
            if first[row] != first[earlier] and are_joined(earlier, row):
                low, high = sorted((first[row], first[earlier]))
                first = [low if one == high else one for one in first]
    return first
