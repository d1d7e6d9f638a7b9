"""What is planned: starts promised in an earlier cycle, maintenance, bookings, and headroom."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engine.snapshot.columns import Floats, Ints, Table, floats, ints


@dataclass(frozen=True, slots=True, eq=False)
class Promises(Table):
    """The planned starts of protected heads, one row per share in the order of ranks.

    `job` is an id, because the job may wait no more; `node` a row.
    """

    job: Ints
    node: Ints
    start_s: Floats


def no_promises() -> Promises:
    """Nobody was promised anything."""
    return Promises(ints([]), ints([]), floats([]))


@dataclass(frozen=True, slots=True, eq=False)
class Windows(Table):
    """Maintenance: one row per window and node (row). No job may be on the node meanwhile.

    `id` is the window's; who runs already when it is planned may still be there.
    """

    id: Ints
    node: Ints
    from_s: Floats
    until_s: Floats


def no_windows() -> Windows:
    """No maintenance is planned."""
    return Windows(ints([]), ints([]), floats([]), floats([]))


@dataclass(frozen=True, slots=True, eq=False)
class Bookings(Table):
    """Advance bookings that are not over: so many `nodes` of a pool for their jobs alone.

    `gpus_per_node` are booked of each node, 0 for the whole of it; `model` as in `Waiting`.
    """

    id: Ints
    pool: Ints
    model: Ints
    nodes: Ints
    gpus_per_node: Ints
    from_s: Floats
    until_s: Floats


def no_bookings() -> Bookings:
    """Nothing is booked."""
    return Bookings(ints([]), ints([]), ints([]), ints([]), ints([]), floats([]), floats([]))


@dataclass(frozen=True, slots=True, eq=False)
class BookedNodes(Table):
    """The nodes (rows) that bookings (rows) had in the last plan; they keep them if they can."""

    booking: Ints
    node: Ints


def no_booked_nodes() -> BookedNodes:
    """Nobody remembers."""
    return BookedNodes(ints([]), ints([]))


@dataclass(frozen=True, slots=True, eq=False)
class Headroom(Table):
    """GPUs of a pool that production can always have; `model` as in `Waiting`."""

    id: Ints
    pool: Ints
    model: Ints
    gpus: Ints


def no_headroom() -> Headroom:
    """Nothing is kept for production."""
    return Headroom(*[ints([])] * 4)
