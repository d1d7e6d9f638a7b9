"""One value that makes no sense in a snapshot that has everything: refused by its name."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.snapshot import (
    BookedNodes,
    Bookings,
    Claims,
    Demand,
    Headroom,
    Held,
    Promises,
    Running,
    Slices,
    Snapshot,
    SnapshotInvalid,
    Windows,
    flags,
    floats,
    ints,
)
from tests.builders import NOW_S, draw, job

LATER_S = NOW_S + 3_600


def _whole() -> Snapshot:
    """Job 1 runs on node a and may be stopped, job 2 has half of a card of node b; a card of c is
    kept for job 5, and node d is booked."""
    drawn = draw("a 1...", "b ..", "c ..", "d ..", jobs=[job(5), job(6, "2x2")])
    held, devices = drawn.held, drawn.devices
    shares = Held.of(
        job=ints([2]),
        node=ints([1]),
        cpus=ints([1]),
        memory_mib=ints([9]),
        until_s=floats([LATER_S]),
    )
    is_shareable, claim = devices.is_shareable.copy(), devices.claim.copy()
    is_shareable[4], claim[6] = True, 0
    return replace(
        drawn,
        held=held.join(shares),
        devices=replace(devices, is_shareable=is_shareable, claim=claim),
        slices=Slices(ints([1]), ints([4]), ints([500])),
        claims=Claims(ints([5]), ints([2]), ints([1]), ints([1]), ints([9]), floats([LATER_S])),
        demand=Demand(ints([1]), ints([500]), ints([2]), ints([-1]), ints([3])),
        windows=Windows(ints([1]), ints([3]), floats([LATER_S]), floats([LATER_S + 60])),
        bookings=Bookings(
            ints([1]),
            ints([0]),
            ints([-1]),
            ints([1]),
            ints([0]),
            floats([LATER_S]),
            floats([LATER_S + 60]),
        ),
        booked_nodes=BookedNodes(ints([0]), ints([3])),
        headroom=Headroom(*(ints([n]) for n in (1, 0, -1, 1))),
        running=Running.of_jobs(draw("a", jobs=[job(1)]).waiting, restart_cost_s=floats([7])),
        model_milli=ints([1000]),
    )


WHOLE = _whole()


def _with(at: str, value: float) -> Snapshot:
    """The column `table.column` with this as its last value."""
    table, _, column = at.partition(".")
    if not column:
        return replace(WHOLE, **{table: _spoilt(getattr(WHOLE, table), value)})
    rows: Any = attrgetter(table)(WHOLE)
    return replace(
        WHOLE, **{table: replace(rows, **{column: _spoilt(getattr(rows, column), value)})}
    )


def _spoilt(column: np.ndarray, value: float) -> np.ndarray:
    spoilt = column.copy()
    spoilt[-1] = value
    return spoilt


def test_the_whole_one_makes_sense() -> None:
    assert plan_cycle(WHOLE).starts


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("nodes.id", 101),
        ("devices.id", 1001),
        ("devices.node", 9),
        ("devices.node", 0),
        ("devices.claim", 4),
        ("devices.claim", 0),
        ("devices.wide_group", -2),
        ("held.scratch_mib", -7),
        ("held.booking", 5),
        ("windows.node", 7),
        ("windows.until_s", NOW_S),
        ("model_milli", 0),
        ("model_milli", 1001),
        ("bookings.pool", 3),
        ("bookings.model", 9),
        ("bookings.nodes", 0),
        ("bookings.gpus_per_node", -1),
        ("bookings.until_s", NOW_S),
        ("booked_nodes.booking", 2),
        ("booked_nodes.node", 8),
        ("headroom.pool", 2),
        ("headroom.model", 7),
        ("headroom.gpus", 0),
        ("running.restart_cost_s", -1),
        ("running.ran_s", np.nan),
        ("running.checkpoint_age_s", -1),
        ("running.least_s", np.nan),
        ("running.rested_s", -5),
        ("claims.node", 9),
        ("claims.gpus", 0),
        ("claims.cpus", -1),
        ("claims.memory_mib", -1),
        ("claims.until_s", np.nan),
        ("slices.holder", 4),
        ("slices.device", 99),
        ("slices.device", 1),
        ("slices.milli", 0),
        ("slices.milli", 1001),
        ("demand.gpus", -1),
        ("demand.gpu_milli", 0),
        ("demand.cpus", -1),
        ("demand.model", 8),
        ("demand.count", -1),
        ("waiting.cpus", -1),
        ("waiting.part_gpus", 2),
        ("waiting.gpu_milli", 500),
        ("waiting.booking", 3),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_its_name(at: str, value: float) -> None:
    named = at.replace("until_s", "from_s") if at.startswith(("windows", "bookings")) else at
    with pytest.raises(SnapshotInvalid, match=f"^{named}"):
        plan_cycle(_with(at, value))


@pytest.mark.parametrize(
    "name", ["Promises", "Slices", "Claims", "Windows", "Bookings", "Headroom"]
)
def test_a_table_whose_columns_differ_in_length_is_refused(name: str) -> None:
    table = name.lower()
    rows: Any = replace(WHOLE, promises=Promises(ints([5]), ints([0]), floats([LATER_S])))
    columns = getattr(rows, table)
    first = next(iter(columns.__slots__))
    shorter = replace(columns, **{first: getattr(columns, first)[:0]})
    with pytest.raises(SnapshotInvalid, match=name):
        plan_cycle(replace(rows, **{table: shorter}))


def test_a_card_that_is_held_whole_is_not_held_in_part() -> None:
    holder = WHOLE.devices.holder.copy()
    holder[4] = 1
    with pytest.raises(SnapshotInvalid, match=r"^slices\.device"):
        plan_cycle(replace(WHOLE, devices=replace(WHOLE.devices, holder=holder)))


def test_a_queue_or_a_live_job_too_few_is_refused() -> None:
    with pytest.raises(SnapshotInvalid, match="queue_is_paused"):
        plan_cycle(replace(WHOLE, queue_is_paused=flags([])))
    running = WHOLE.running
    assert running is not None
    with pytest.raises(SnapshotInvalid, match="Running"):
        plan_cycle(replace(WHOLE, running=replace(running, ran_s=floats([]))))
