"""How long jobs probably run and may wait: what the orders `shortest` and `las` need to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import numpy as np

from scheduler.engine.learning import EndChances, Kind, Run, RunTimes
from scheduler.engine.snapshot import NONE, Flags, Floats, Snapshot, Waiting, flags, floats
from scheduler.engine.worth import gpus_of
from scheduler.models import Attempt, Job, Pool
from scheduler.selectors.freeing.kinds import kind_columns, kind_in
from scheduler.states import AttemptState, EndReason, JobState

# The latest so many ended attempts tell.
LEARN_FROM = 5_000
LEARN_EVERY = timedelta(minutes=10)
_CHUNK = 500
# A job goes first once it has waited so much longer than the largest backlog would take, the
# figures of `scheduler/simulator/guard.py`, and never before this.
PATIENCE, BACKLOG_WEIGHT, LEAST_WAIT_S = 1.35, 1.25, 3600.0


@dataclass(slots=True)
class LearntMemory:
    """Run times as read last and what they tell, the kinds of the jobs that wait or run, backlogs
    by pool name.

    `backlog_s` is the largest since the scheduler started; what was before, and how long the
    plainest scheduler lets jobs wait, is in `may_wait_s`, as `learn_wait_limits` found it last.
    """

    times: RunTimes = field(default_factory=RunTimes)
    chances: EndChances = field(default_factory=EndChances)
    kind_of: dict[int, Kind] = field(default_factory=dict)
    backlog_s: dict[str, float] = field(default_factory=dict)
    may_wait_s: dict[str, float] = field(default_factory=dict)
    learnt_at: datetime | None = None

    def add_to(
        self,
        snapshot: Snapshot,
        learns: Flags | None = None,
        by_chance: Flags | None = None,
        *,
        now: datetime,
    ) -> Snapshot:
        """The snapshot with `learnt_s` of all jobs and the pools' `wait_limit_s`.

        `learns`, by pool: which of them; None is all. `by_chance`, by pool: where jobs are told by
        the index of `EndChances`, None is nowhere; elsewhere by the median of those alike.
        """
        pools = len(snapshot.pools)
        learns = flags(np.ones(pools)) if learns is None else learns
        by_chance = flags(np.zeros(pools)) if by_chance is None else by_chance
        self._know(snapshot)
        ran_s = _ran_before() if len(self.kind_of) else {}
        waiting = _with_all_runs(snapshot.waiting, ran_s, learns)
        running = snapshot.running
        live = None if running is None else _with_all_runs(running.jobs, ran_s, learns)
        if self.learnt_at is None or not timedelta(0) <= now - self.learnt_at < LEARN_EVERY:
            self._read(waiting, live)
            self.learnt_at = now
        if running is not None and live is not None:
            running = replace(running, jobs=self._learn(live, learns, by_chance))
        return replace(
            snapshot,
            waiting=self._learn(waiting, learns, by_chance),
            running=running,
            wait_limit_s=floats(np.where(learns, self._wait_limits(snapshot), np.inf)),
        )

    def _read(self, *jobs: Waiting | None) -> None:
        """Learn anew from who has ended, and from how long these have run without an end."""
        ended = list(_ended_runs())
        live = [
            (job, self.kind_of[job], attained_s)
            for some in jobs
            if some is not None
            for job, attained_s in zip(some.id.tolist(), some.attained_s.tolist(), strict=True)
            if job in self.kind_of
        ]
        self.times = RunTimes((kind, run_s) for _, kind, run_s in ended)
        self.chances = EndChances(ended, live)
        pools = Pool.objects.order_by().values_list("name", "may_wait_s")
        self.may_wait_s = {name: limit_s for name, limit_s in pools if limit_s is not None}

    def _know(self, snapshot: Snapshot) -> None:
        """Read the kinds of new jobs, forget those that are gone; nothing if there are none."""
        ids = set(snapshot.waiting.id.tolist())
        if snapshot.running is not None:
            ids |= set(snapshot.running.jobs.id.tolist())
        for gone in self.kind_of.keys() - ids:
            del self.kind_of[gone]
        new = sorted(ids - self.kind_of.keys())
        for first in range(0, len(new), _CHUNK):
            rows = Job.objects.filter(pk__in=new[first : first + _CHUNK])
            for pk, *kind in rows.values_list("pk", *kind_columns()):
                self.kind_of[pk] = kind_in(kind)

    def _learn(self, jobs: Waiting, learns: Flags, by_chance: Flags) -> Waiting:
        """How long they will probably run still."""
        kinds = [self.kind_of.get(job) for job in jobs.id.tolist()]
        is_known = flags([kind is not None for kind in kinds]) & learns[jobs.pool]
        learnt_s = floats(np.full(len(jobs), np.inf))
        likely = np.flatnonzero(is_known & by_chance[jobs.pool])
        whose = [kind for row in likely if (kind := kinds[row]) is not None]
        learnt_s[likely] = self.chances.ahead_s(jobs.id[likely], whose, jobs.attained_s[likely])
        # Jobs of one kind that ran as long are told the same.
        known: dict[tuple[Kind, float], float] = {}
        for row in np.flatnonzero(is_known & ~by_chance[jobs.pool]).tolist():
            kind, attained_s = kinds[row], float(jobs.attained_s[row])
            if kind is not None and (kind, attained_s) not in known:
                known[kind, attained_s] = self.times.ahead_s(kind, attained_s)
            learnt_s[row] = known[kind, attained_s] if kind is not None else np.inf
        return replace(jobs, learnt_s=learnt_s)

    def _wait_limits(self, snapshot: Snapshot) -> Floats:
        limits_s = []
        for name, ahead_s in zip(snapshot.pools, backlogs_s(snapshot).tolist(), strict=True):
            self.backlog_s[name] = max(self.backlog_s.get(name, 0.0), ahead_s)
            backlog_s = PATIENCE * BACKLOG_WEIGHT * self.backlog_s[name]
            limits_s.append(max(LEAST_WAIT_S, self.may_wait_s.get(name, 0.0), backlog_s))
        return floats(limits_s)


def _with_all_runs(jobs: Waiting, ran_s: Mapping[int, float], learns: Flags) -> Waiting:
    """With what earlier attempts ran in `attained_s`, in the pools that learn."""
    before_s = floats([ran_s.get(job, 0.0) for job in jobs.id.tolist()])
    return replace(jobs, attained_s=jobs.attained_s + before_s * learns[jobs.pool])


def backlogs_s(snapshot: Snapshot) -> Floats:
    """By pool: GPU seconds that are held or waited for by their limits, over all its GPUs."""
    devices, held, waiting, pools = (
        snapshot.devices,
        snapshot.held,
        snapshot.waiting,
        len(snapshot.pools),
    )
    pool_of_device = snapshot.nodes.pool[devices.node]
    gpus = np.bincount(pool_of_device, minlength=pools)
    used = devices.holder != NONE
    left_s = np.maximum(0.0, held.until_s[devices.holder[used]] - snapshot.now_s)
    ahead = np.bincount(pool_of_device[used], weights=left_s, minlength=pools)
    waits = waiting.remaining_s * gpus_of(waiting)
    ahead = ahead + np.bincount(waiting.pool, weights=waits, minlength=pools)
    return floats(ahead / np.maximum(gpus, 1))


def read_run_times() -> RunTimes:
    """What the latest ended attempts tell; one query."""
    return RunTimes((kind, run_s) for _, kind, run_s in _ended_runs())


def _ended_runs() -> Iterable[Run]:
    """Job, kind and run time of the latest attempts that ended well; one query."""
    ended = Attempt.objects.filter(
        state=AttemptState.ENDED, end_reason=EndReason.COMPLETED, started_at__isnull=False
    ).order_by("-pk")
    rows = ended.values_list("job_id", "started_at", "ended_at", *kind_columns("job__"))
    for job, began, over, *kind in rows[:LEARN_FROM]:
        yield job, kind_in(kind), max(1.0, (over - began).total_seconds())


def _ran_before() -> dict[int, float]:
    """By job that waits or runs again: seconds that its earlier attempts ran; one query."""
    earlier = Attempt.objects.filter(
        job__state__in=(JobState.QUEUED, JobState.STARTING, JobState.RUNNING),
        state=AttemptState.ENDED,
        started_at__isnull=False,
    ).values_list("job_id", "started_at", "ended_at")
    ran_s: dict[int, float] = {}
    for job, began, over in earlier:
        if began and over:
            ran_s[job] = ran_s.get(job, 0.0) + max(0.0, (over - began).total_seconds())
    return ran_s
