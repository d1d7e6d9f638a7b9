"""What the engine says: who starts where, who stops, and why each of the others waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from scheduler.engine.snapshot import WHOLE_MILLI, Floats, Ints, floats
from scheduler.states import EndReason, WaitReason, why_no_forecast

if TYPE_CHECKING:
    from scheduler.engine.explaining.standing import Standing

# A forecast is rounded up to so many seconds, up to so far ahead.
_STEPS = ((3600, 60), (6 * 3600, 300))
_NO_FACTS: Mapping[str, object] = MappingProxyType({})


def rounded_up(at_s: Floats, now_s: float) -> Floats:
    """Moments (seconds since 1970) as a forecast says them: up to the minute, and further ahead to
    five or fifteen."""
    ahead_s = at_s - now_s
    step_s = np.select([ahead_s <= limit for limit, _ in _STEPS], [s for _, s in _STEPS], 900)
    return floats(np.ceil(at_s / step_s) * step_s)


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
    """A job and its placements, rank 0 first; all of them or none.

    `why_here` are plain JSON values; empty unless the data that it reads made a difference: `node`
    (id) was chosen before `instead_of`, as `missing_mib` have to be copied there and
    `more_missing_mib` to the other.
    """

    job: int
    placements: tuple[PlannedPlacement, ...]
    why_here: Mapping[str, object] = field(default_factory=lambda: _NO_FACTS, hash=False)


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
class Resize:
    """A live elastic job that restarts with another number of nodes.

    Fewer are for a `beneficiary`; more are worth `gain_gpu_s` of work beyond `cost_gpu_s`, what it
    does again because of the restart. `placements`: where it goes on.
    """

    job: int
    nodes: int
    was: int
    beneficiary: int | None
    gain_gpu_s: int
    cost_gpu_s: int
    placements: tuple[PlannedPlacement, ...] = ()


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


class SlotKind(StrEnum):
    """Why a slot of the timeline is taken."""

    START = "start"
    HEAD = "head"
    BOOKING = "booking"
    MAINTENANCE = "maintenance"
    HEADROOM = "headroom"


@dataclass(frozen=True, slots=True)
class Slot:
    """What is planned where, from and to; times in seconds since 1970, no end is infinite.

    `owner`: the id of the job that starts now or is planned, of the booking or of the maintenance
    window; of the pool's row for headroom.
    """

    kind: SlotKind
    owner: int
    nodes: tuple[int, ...]
    from_s: float
    until_s: float


class Forecast:
    """When waiting jobs will probably start, by row of `Waits`; worked out at the first look.

    `p50_s` by what jobs usually run, `p90_s` by what they declare; seconds since 1970, rounded up
    to the minute and further ahead to five or fifteen, so that rows change less often. NaN where no
    honest figure exists.
    """

    def __init__(
        self,
        work_out: Callable[[], tuple[Floats, Floats]],
        work_out_one: Callable[[int], tuple[float, float]],
        now_s: float,
    ) -> None:
        self._work_out = work_out
        self._work_out_one = work_out_one
        self._now_s = now_s
        self._told: dict[int, tuple[float, float]] = {}

    @cached_property
    def columns(self) -> tuple[Floats, Floats]:
        """p50 and p90."""
        p50_s, p90_s = self._work_out()
        return rounded_up(p50_s, self._now_s), rounded_up(p90_s, self._now_s)

    def of(self, row: int) -> tuple[float, float]:
        """p50 and p90 of one row: the same as in `columns`, for less where only few are asked."""
        if "columns" in self.__dict__:
            p50_s, p90_s = self.columns
            return float(p50_s[row]), float(p90_s[row])
        if row not in self._told:
            told = rounded_up(floats(self._work_out_one(row)), self._now_s)
            p50_s, p90_s = told.tolist()
            self._told[row] = p50_s, p90_s
        return self._told[row]

    @property
    def p50_s(self) -> Floats:
        """What is as likely too late as too early."""
        return self.columns[0]

    @property
    def p90_s(self) -> Floats:
        """What nine of ten jobs should keep."""
        return self.columns[1]

    @classmethod
    def unknown(cls, size: int) -> Forecast:
        """Of so many jobs whose start nobody can tell."""
        return cls(
            lambda: (floats(np.full(size, np.nan)), floats(np.full(size, np.nan))),
            lambda row: (np.nan, np.nan),
            0.0,
        )

    def join(self, other: Forecast, size: int) -> Forecast:
        """These rows, `size` of them, then those of the other; nothing is worked out by it."""

        def work_out() -> tuple[Floats, Floats]:
            mine, others = self.columns, other.columns
            return (
                floats(np.concatenate([mine[0], others[0]])),
                floats(np.concatenate([mine[1], others[1]])),
            )

        def work_out_one(row: int) -> tuple[float, float]:
            return self.of(row) if row < size else other.of(row - size)

        return Forecast(work_out, work_out_one, np.inf)


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """The waiting jobs in their order, as columns: `verdicts[verdict[row]]` is the reason.

    `ahead` counts the jobs of the same pool that come first. Facts of single jobs are put together
    only when read.
    """

    job: Ints
    verdict: Ints
    ahead: Ints
    verdicts: tuple[Verdict, ...]
    forecast: Forecast

    def __len__(self) -> int:
        return len(self.job)

    def __getitem__(self, row: int) -> Wait:
        verdict = self.verdicts[int(self.verdict[row])]
        facts = dict(verdict.facts)
        facts["ahead"] = int(self.ahead[row])
        p50_s, p90_s = self.forecast.of(row)
        if np.isnan(p90_s):
            facts["start_p50_at"] = facts["start_p90_at"] = None
            facts["start_why"] = why_no_forecast(verdict.reason, verdict.facts)
        else:
            facts["start_p50_at"], facts["start_p90_at"] = int(p50_s), int(p90_s)
        return Wait(int(self.job[row]), verdict.reason, facts)

    def join(self, other: Waits) -> Waits:
        """These waits, then those of the other."""
        return Waits(
            np.concatenate([self.job, other.job]),
            np.concatenate([self.verdict, other.verdict + len(self.verdicts)]),
            np.concatenate([self.ahead, other.ahead]),
            self.verdicts + other.verdicts,
            self.forecast.join(other.forecast, len(self)),
        )

    def __iter__(self) -> Iterator[Wait]:
        # All at once cost less than one after the other.
        _ = self.forecast.columns
        return (self[row] for row in range(len(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Every waiting job is in exactly one of `starts` and `waits`.

    `standings`: where those that start stood in the order, by job. `resizes`: live elastic jobs
    that restart with more nodes or fewer. `timeline`: what starts now, what is planned for heads,
    and what the calendar keeps.
    """

    starts: tuple[Start, ...]
    stops: tuple[Stop, ...]
    waits: Waits
    reservations: tuple[Reservation, ...] = ()
    standings: Mapping[int, Standing] = field(default_factory=dict)
    resizes: tuple[Resize, ...] = ()
    timeline: tuple[Slot, ...] = ()

    def iter_waits(self) -> Iterator[Wait]:
        """The waits one by one, in queue order within each pool."""
        return iter(self.waits)
