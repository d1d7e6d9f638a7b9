"""Which GPUs of a node reach each other fast, as NVML tells it."""

from __future__ import annotations

import pytest

from scheduler.agent.gpus.links import link_groups


class Nvml:
    """Eight devices, two NUMA nodes of four; `links` are pairs with NVLink."""

    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK, NVML_TOPOLOGY_NODE = 2, 0, 40

    class NVMLError(Exception):
        pass

    def __init__(self, links: set[tuple[int, int]], *, answers: bool = True) -> None:
        self.links, self.answers = links, answers

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, index: int) -> int:
        if not self.answers:
            raise self.NVMLError("not supported")
        return 0 if (one, other) in self.links else 5

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return 40 if one // 4 == other // 4 else 50


ALL = {(one, other) for other in range(8) for one in range(other)}


@pytest.mark.parametrize(
    ("count", "links", "expected"),
    [
        (8, ALL, [""] * 8),
        (1, set(), [""]),
        (0, set(), []),
        (8, set(), ["numa-0"] * 4 + ["numa-4"] * 4),
        (4, {(0, 1), (2, 3)}, ["nvlink-0"] * 2 + ["nvlink-2"] * 2),
        (4, {(0, 2), (1, 2)}, ["nvlink-0"] * 3 + ["numa-0"]),
        # A ring: neighbours alone are linked, yet all reach all.
        (4, {(0, 1), (1, 2), (2, 3)}, [""] * 4),
    ],
)
def test_devices_with_links_are_one_group(count, links, expected):
    assert list(link_groups(Nvml(links), range(count))) == expected


def test_a_driver_that_does_not_say_makes_no_groups():
    assert link_groups(Nvml(set(), answers=False), range(3)) == ("", "", "")
