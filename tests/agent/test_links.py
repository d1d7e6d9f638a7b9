"""Which GPUs of a node reach each other fast, as NVML tells it."""

from __future__ import annotations

import pytest

from scheduler.agent.gpus.links import link_groups


class Nvml:
    """Eight devices, two NUMA nodes of four; `links` are pairs with NVLink, and each `switch` next
    to each other hang on one PCIe switch."""

    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0
    NVML_TOPOLOGY_MULTIPLE, NVML_TOPOLOGY_NODE = 20, 40

    class NVMLError(Exception):
        pass

    def __init__(
        self, links: set[tuple[int, int]], *, answers: bool = True, switch: int = 1
    ) -> None:
        self.links, self.answers, self.switch = links, answers, switch

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, index: int) -> int:
        if not self.answers:
            raise self.NVMLError("not supported")
        return 0 if (one, other) in self.links else 5

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        if one // self.switch == other // self.switch:
            return 20
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
        (4, {(0, 2), (1, 2)}, ["nvlink-0"] * 3 + [""]),
        # Bridges of two on each side, and one over both.
        (
            8,
            {(0, 1), (4, 5)},
            ["numa-0/nvlink-0"] * 2 + ["numa-0"] * 2 + ["numa-4/nvlink-4"] * 2 + ["numa-4"] * 2,
        ),
        (8, {(3, 4)}, ["numa-0"] * 3 + ["nvlink-3"] * 2 + ["numa-4"] * 3),
        # A ring: neighbours alone are linked, yet all reach all.
        (4, {(0, 1), (1, 2), (2, 3)}, [""] * 4),
    ],
)
def test_devices_with_links_are_one_group(count, links, expected):
    assert list(link_groups(Nvml(links), range(count))) == expected


def test_a_driver_that_does_not_say_makes_no_groups():
    assert link_groups(Nvml(set(), answers=False), range(3)) == ("", "", "")


def test_without_nvlink_those_on_one_pcie_switch_are_a_group_of_their_numa_node():
    told = link_groups(Nvml(set(), switch=2), range(8))
    assert told == (
        *("numa-0/pcie-0",) * 2,
        *("numa-0/pcie-2",) * 2,
        *("numa-4/pcie-4",) * 2,
        *("numa-4/pcie-6",) * 2,
    )
    assert link_groups(Nvml(set(), switch=2), range(4)) == (*("pcie-0",) * 2, *("pcie-2",) * 2)
    assert link_groups(Nvml(set(), switch=4), range(8)) == (
        *("numa-0/pcie-0",) * 4,
        *("numa-4/pcie-4",) * 4,
    )
