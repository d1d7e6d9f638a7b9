"""What is kept for a job while others make room for it."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.engine.snapshot.columns import Floats, Ints, Table, floats, ints


@dataclass(frozen=True, slots=True, eq=False)
class Claims(Table):
    """Each share of a node that is kept for a job (its id), the ranks of a job in their order.

    The devices are those whose `Devices.claim` is the row; `gpus` says how many they should be.
    `until_s`: when the job will reach its time limit there, as far as is known before it starts.
    """

    job: Ints
    node: Ints
    gpus: Ints
    cpus: Ints
    memory_mib: Ints
    until_s: Floats


def no_claims() -> Claims:
    """Nothing is kept for anybody."""
    none = ints([])
    return Claims(none, none, none, none, none, floats([]))
