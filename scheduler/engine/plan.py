"""What the engine says: who starts where, who stops, and why each of the others waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from scheduler.engine.snapshot import WHOLE_MILLI, Floats, Ints
from scheduler.states import EndReason, WaitReason

_NO_FACTS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """One rank's share of one node, by ids; cpus and memory are taken from that node.

    `gpu_milli` is taken of each device: 1000 is the whole of it.
    """

    node: int
    rank: int
    devices: tuple[int, ...]
    cpus: int
    memory_mib: int
    gpu_milli: int = WHOLE_MILLI


@dataclass(frozen=True, slots=True)
class Start:
    """A job and its placements, rank 0 first; all of them or none."""

    job: int
    placements: tuple[PlannedPlacement, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """A live job that has to make room, for which job, and what spoke for it.

    `facts` are plain JSON values: `why` is "tier" if its beneficiary is of a higher one, "order" if
    running others first is worth more; `tier`, `beneficiary_tier`; `lost_s`, the work it loses.
    """

    job: int
    beneficiary: int
    reason: EndReason = EndReason.PREEMPTED
    facts: Mapping[str, object] = field(default_factory=lambda: _NO_FACTS)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why one job waits; `facts` are plain JSON values for the slots of its sentence."""

    job: int
    reason: WaitReason
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reason and the facts that all jobs of a class share."""

    reason: WaitReason
    facts: Mapping[str, object] = field(default_factory=lambda: _NO_FACTS)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept for a protected head, which starts there at `start_s` at the latest."""

    job: int
    nodes: tuple[int, ...]
    start_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """The waiting jobs in their order, as columns: `verdicts[verdict[row]]` is the reason.

    `ahead` counts the jobs of the same pool that come first. `expected_start_s` is NaN where no
    honest figure exists. Facts of single jobs are put together only when read.
    """

    job: Ints
    verdict: Ints
    ahead: Ints
    expected_start_s: Floats
    verdicts: tuple[Verdict, ...]

    def __len__(self) -> int:
        return len(self.job)

    def __getitem__(self, row: int) -> Wait:
        verdict = self.verdicts[int(self.verdict[row])]
        facts = dict(verdict.facts)
        facts["ahead"] = int(self.ahead[row])
        start_s = float(self.expected_start_s[row])
        if np.isnan(start_s):
            facts["expected_start_at"] = None
            facts["expected_start_why"] = _why_no_start(verdict.reason, int(self.ahead[row]))
        else:
            # Rounded up to the minute: the figure is a bound, and rows change less often.
            facts["expected_start_at"] = int(-(-start_s // 60) * 60)
        return Wait(int(self.job[row]), verdict.reason, facts)

    def join(self, other: Waits) -> Waits:
        """These waits, then those of the other."""
        return Waits(
            np.concatenate([self.job, other.job]),
            np.concatenate([self.verdict, other.verdict + len(self.verdicts)]),
            np.concatenate([self.ahead, other.ahead]),
            np.concatenate([self.expected_start_s, other.expected_start_s]),
            self.verdicts + other.verdicts,
        )

    def __iter__(self) -> Iterator[Wait]:
        return (self[row] for row in range(len(self)))


def _why_no_start(reason: WaitReason, ahead: int) -> str:
    if reason is WaitReason.INFEASIBLE_EVER:
        return "It can never start as it is."
    if reason is WaitReason.POOL_CLOSED:
        return "Nobody knows when the queue is resumed."
    if reason is WaitReason.NODES_UNHEALTHY:
        return "Nobody knows when the nodes are back."
    if reason is WaitReason.PREEMPTION_IN_PROGRESS:
        return "It starts as soon as they have stopped."
    if ahead:
        return (
            f"It depends on the {ahead} jobs ahead."
            if ahead > 1
            else "It depends on the job ahead."
        )
    return "A running job has no end in sight."


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Every waiting job is in exactly one of `starts` and `waits`."""

    starts: tuple[Start, ...]
    stops: tuple[Stop, ...]
    waits: Waits
    reservations: tuple[Reservation, ...] = ()

    def iter_waits(self) -> Iterator[Wait]:
        """The waits one by one, in queue order within each pool."""
        return iter(self.waits)
