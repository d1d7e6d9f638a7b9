"""What is planned: starts promised in an earlier cycle, and maintenance."""

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
