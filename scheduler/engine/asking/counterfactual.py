"""What would help: small changes to one job, each tried by deciding the whole cycle with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.asking.edits import Edit, other_changes, shorter, smaller
from scheduler.engine.cycle import Known, plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import Snapshot

# A start is called sooner if the forecast gains a tenth of the wait, a minute at least.
LEAST_GAIN, LEAST_GAIN_S = 0.1, 60


@dataclass(frozen=True, slots=True)
class Option:
    """A change that was tried and helps. `start_s` is now if `starts_now`, else the p50 forecast.

    `kind` is limit, gpus, nodes, model, place, alone, labels, price or pool; `fields` the values it
    has then.
    """

    kind: str
    words: str
    starts_now: bool
    start_s: float
    fields: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class Answer:
    """`start_s`: the p50 forecast as the job is, None for none. `tried`: cycles decided for it."""

    starts_now: bool
    start_s: float | None
    options: tuple[Option, ...]
    tried: int


def what_if(
    snapshot: Snapshot,
    policy: Policy,
    job: int,
    elsewhere: Sequence[tuple[int, int]] = (),
    *,
    plan: Plan | None = None,
    known: Known | None = None,
    least_limit_s: int = 1,
) -> Answer | None:
    """The mildest change of each kind with which the waiting job starts now, else a soon one.

    `elsewhere`: rows of other pools and of their queues that the job may go to. `plan`: what
    `plan_cycle` says of the snapshot, if that is known, and `known` what was found out by it. No
    limit below `least_limit_s` is tried. None if no such job waits. Nothing is claimed that
    `plan_cycle` has not said of the changed job among all the others; those that start now come
    first, then by start. Where the strongest of a row of changes does not help, it is taken on
    trust that no milder one does.
    """
    rows = np.flatnonzero(snapshot.waiting.id == job)
    if not len(rows):
        return None
    row = int(rows[0])
    known = known or Known()
    as_is = _start_s(plan or plan_cycle(snapshot, policy, known), job, snapshot.now_s)
    if as_is == snapshot.now_s:
        return Answer(True, snapshot.now_s, (), 1)
    trial = _Trial(snapshot, policy, row, as_is, known)
    trial.search(list(shorter(snapshot, row, least_limit_s)))
    for edits in smaller(snapshot, row):
        if edits and trial.helps(edits[-1]):
            trial.try_in_turn(edits)
    trial.try_in_turn(other_changes(snapshot, row, elsewhere))
    options = sorted(trial.best.values(), key=lambda option: (option.start_s, option.kind))
    start_s = as_is if np.isfinite(as_is) else None
    return Answer(False, start_s, tuple(options), trial.tried + 1)


class _Trial:
    """Decides with one change after the other; `best` has what helps most of each kind."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, row: int, as_is_s: float, known: Known
    ) -> None:
        self.best: dict[str, Option] = {}
        self._starts_s: dict[str, float] = {}
        self._snapshot = snapshot
        self._policy = policy
        self._row = row
        self._as_is_s = as_is_s
        # No change is one of the cluster, and most leave everybody's turn as it is.
        self._known = known

    def try_out(self, edit: Edit) -> bool:
        """Whether the job starts now with it."""
        now_s, start_s, known = self._snapshot.now_s, self._start_s(edit), self.best.get(edit.kind)
        is_best = known is None or start_s < known.start_s or start_s == now_s
        if is_best and self.helps(edit):
            now = start_s == now_s
            self.best[edit.kind] = Option(edit.kind, edit.words, now, start_s, edit.columns)
        return start_s == now_s

    def try_in_turn(self, edits: Iterable[Edit]) -> None:
        """Each of them, until one of its kind starts the job now."""
        for edit in edits:
            if edit.kind not in self.best or not self.best[edit.kind].starts_now:
                self.try_out(edit)

    def helps(self, edit: Edit) -> bool:
        """Whether the job starts now with it, or sooner."""
        return _is_sooner(self._start_s(edit), self._as_is_s, self._snapshot.now_s)

    def search(self, edits: Sequence[Edit]) -> None:
        """The mildest of a row of ever stronger changes that starts it now, by halving.

        What halving finds was tried; only that nothing milder would do is taken on trust.
        """
        low, high = 0, len(edits) if edits and self.helps(edits[-1]) else 0
        while low < high:
            middle = (low + high) // 2
            if self.try_out(edits[middle]):
                high = middle
            else:
                low = middle + 1

    def _start_s(self, edit: Edit) -> float:
        """When the job starts with it; decides a cycle the first time."""
        if edit.words not in self._starts_s:
            changed = _changed(self._snapshot, self._row, edit)
            plan = plan_cycle(changed, self._policy, self._known)
            job = int(self._snapshot.waiting.id[self._row])
            self._starts_s[edit.words] = _start_s(plan, job, self._snapshot.now_s)
        return self._starts_s[edit.words]

    @property
    def tried(self) -> int:
        return len(self._starts_s)


def _start_s(plan: Plan, job: int, now_s: float) -> float:
    """Now if the plan starts it, else the p50 forecast; infinite if there is none."""
    if any(start.job == job for start in plan.starts):
        return now_s
    at = np.flatnonzero(plan.waits.job == job)
    p50_s = plan.waits.forecast.of(int(at[0]))[0] if len(at) else np.nan
    return float("inf") if np.isnan(p50_s) else max(p50_s, now_s + 1)


def _is_sooner(start_s: float, as_is_s: float, now_s: float) -> bool:
    if start_s == now_s or not np.isfinite(as_is_s):
        return bool(np.isfinite(start_s))
    gain_s = max(LEAST_GAIN_S, LEAST_GAIN * (as_is_s - now_s))
    return start_s <= as_is_s - gain_s


def _changed(snapshot: Snapshot, row: int, edit: Edit) -> Snapshot:
    columns = {}
    for name, value in edit.columns.items():
        columns[name] = getattr(snapshot.waiting, name).copy()
        columns[name][row] = value
    return replace(snapshot, waiting=replace(snapshot.waiting, **columns))
