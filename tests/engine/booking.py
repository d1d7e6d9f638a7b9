"""Snapshots with bookings, and clusters with room enough for jobs to meet them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from scheduler.engine.plan import Plan, SlotKind
from scheduler.engine.snapshot import NONE, BookedNodes, Bookings, Snapshot, floats, ints
from scheduler.states import Tier
from tests.builders import NOW_S, draw, job

# id, nodes, GPUs of each (0: whole nodes), from and until in seconds from now
Booked = tuple[int, int, int, float, float]


def booked(
    snapshot: Snapshot,
    *bookings: Booked,
    inside: Mapping[int, int] | None = None,
    on: Sequence[tuple[int, int]] = (),
    model: int = NONE,
) -> Snapshot:
    """The same with bookings of pool "default"; `inside`: booking (id) of jobs, waiting or not.

    `on`: (booking id, node row) as the last plan had it.
    """
    number, nodes, gpus, begin, end = zip(*bookings, strict=True)
    row_of = {one: row for row, one in enumerate(number)}
    inside = {job: row_of[booking] for job, booking in (inside or {}).items()}

    def whose(jobs):
        return ints([inside.get(job, NONE) for job in jobs.tolist()])

    return replace(
        snapshot,
        bookings=Bookings(
            ints(number),
            ints([snapshot.pools.index("default")] * len(number)),
            ints([model] * len(number)),
            ints(nodes),
            ints(gpus),
            NOW_S + floats(begin),
            NOW_S + floats(end),
        ),
        booked_nodes=BookedNodes(ints([row_of[b] for b, _ in on]), ints([node for _, node in on])),
        waiting=replace(snapshot.waiting, booking=whose(snapshot.waiting.id)),
        held=replace(snapshot.held, booking=whose(snapshot.held.job)),
    )


def places(plan: Plan) -> dict[int, list[int]]:
    """Node rows by booking."""
    return {
        slot.owner: sorted(node - 101 for node in slot.nodes)
        for slot in plan.timeline
        if slot.kind is SlotKind.BOOKING
    }


BOOKINGS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.integers(1, 2),
        st.integers(0, 3),
        st.sampled_from([-50.0, 50.0, 700.0, 1500.0]),
        st.sampled_from([60.0, 800.0, 9000.0]),
    ).filter(lambda one: one[3] < one[4]),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one[0],
)


@st.composite
def roomy(drawing: st.DrawFn) -> Snapshot:
    """Two to four nodes of four GPUs, most of them free, and jobs that fit there."""
    groups = st.sampled_from(["....", "....", "..1.", "22..", "333.", "...x"])
    lines = [f"n{n} {drawing(groups)}" for n in range(drawing(st.integers(2, 4)))]
    jobs = [
        job(
            number + 100,
            drawing(st.sampled_from(["1x0", "1x1", "1x2", "1x4", "2x2", "2x4"])),
            tier=drawing(st.sampled_from([Tier.NORMAL, Tier.NORMAL, Tier.URGENT])),
            waited=drawing(st.sampled_from([0, 5, 900])),
            limit_s=drawing(st.sampled_from([30, 600, 7200])),
        )
        for number in range(drawing(st.integers(1, 8)))
    ]
    ends = {number: drawing(st.sampled_from([20, 100, 1000, 5000])) for number in range(1, 4)}
    return draw(*lines, jobs=jobs, ends=ends)
