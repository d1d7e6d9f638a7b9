"""Bugs in how jobs are started, run, ended, logged and paid for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from portal.torture.plants.kinds import Plant


def _two_leaders() -> None:
    """Every scheduler believes that it leads, no token is held against it, and no job's state."""
    from django.db import connection

    from scheduler.loop.lease import Lease, acquire_lease
    from scheduler.services import transitions

    cycle: Any = import_module("scheduler.loop.cycle")
    commit = cycle.commit_starts

    def acquire(holder: str, *, now: Any) -> Lease | None:
        acquire_lease(holder, now=now)
        with connection.cursor() as cursor:
            cursor.execute("SELECT token, expires_at FROM scheduler_schedulerlease")
            return Lease(holder, *cursor.fetchone())

    def slowly(*args: Any, **options: Any) -> Any:
        time.sleep(0.4)
        return commit(*args, **options)

    move = transitions.move_jobs_to_starting

    def move_all(job_ids: Any, **options: Any) -> set[int]:
        move(job_ids, **options)
        return set(job_ids)

    transitions.move_jobs_to_starting = move_all
    cycle.acquire_lease = acquire
    cycle.renew_lease = lambda lease, *, now: acquire(lease.holder, now=now)
    cycle.commit_starts = slowly


def _pay_for_all() -> None:
    """Neither who plans a start nor who commits it asks whether a budget pays for it."""
    from django.db.models import Q

    accounts: Any = import_module("scheduler.loop.loading.accounts")
    committing: Any = import_module("scheduler.services.sharing.committing")
    accounts._left = lambda _: None
    committing.Q = lambda **_: Q()  # the conditions of its UPDATE, and nothing else


def _accrue_twice() -> None:
    from scheduler.services import usage

    once = usage._accrue_all

    def twice(attempt_ids: Any, **options: Any) -> None:
        once(attempt_ids, **options)
        once(attempt_ids, **options)

    usage._accrue_all = twice


def _shift_logs() -> None:
    """The server stores the bytes of a chunk a place too late."""
    agent: Any = import_module("portal.api.nodes.agent")
    append = agent.append_log

    def shifted(*, body: bytes, **options: Any) -> Any:
        return append(body=body[:1] + body[:-1], **options)

    agent.append_log = shifted


def _forget_submits() -> None:
    """Some jobs are answered for before they are written, and then they are not."""
    from django.db import transaction

    from scheduler.services import jobs

    submit, seen = jobs.submit_job, [0]

    def forgetful(**options: Any) -> Any:
        seen[0] += 1
        with transaction.atomic():
            found = submit(**options)
            transaction.set_rollback(seen[0] % 5 == 0)
        return found

    jobs.submit_job = forgetful


def _forget_keys() -> None:
    from scheduler.services import jobs

    submit = jobs.submit_job
    jobs.submit_job = lambda **options: submit(**{**options, "idempotency_key": ""})


def _cancel_the_past() -> None:
    """A cancel also reaches jobs that have ended."""
    from django.db import connection

    from scheduler.services import jobs

    cancel = jobs.cancel_job

    def cancel_any(*, job: Any, **options: Any) -> Any:
        found = cancel(job=job, **options)
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE scheduler_job SET state = 'cancelled' WHERE id = %s AND state = %s",
                [job.pk, "succeeded"],
            )
        return found

    jobs.cancel_job = cancel_any


def _give_up_early() -> None:
    """A silent node's jobs run elsewhere as soon as its lease is over."""
    from scheduler.conf import SchedulerConf

    def at_once(self: Any, _asked_s: int, _stop_s: int) -> Any:
        return self.node_lease

    SchedulerConf.lost_after_grace = at_once  # type: ignore[assignment]


def _call_it_success() -> None:
    """What nobody saw the end of is reported as done."""
    from scheduler.agent import runner
    from scheduler.agent.runtime.records import ExitRecord
    from scheduler.states import EndReason

    def rosy(self: Any, detail: str) -> ExitRecord:
        return ExitRecord(
            EndReason.COMPLETED, time.time(), self.started_at, 0, "", self.slot.log_size()
        )

    runner.Attempt._lost = rosy  # type: ignore[method-assign]


def _believe_pids() -> None:
    """A pid alone says that a supervisor lives."""
    from scheduler.agent.runtime import processes

    def is_alive(pid: int, ticks: int) -> bool:
        return pid > 0 and processes.start_ticks(pid) is not None

    processes.is_alive = is_alive


def _leave_behind() -> None:
    """What a program left running is left alone."""
    from scheduler.agent.runtime import killing, limits

    killing.kill_descendants = lambda **_: []
    killing.kill_remains = lambda *_, **__: []
    limits.Limits.kill = lambda self: None  # type: ignore[method-assign]


def _start_again() -> None:
    """An agent that comes back starts what it finds."""
    from scheduler.agent import converge

    adopt = converge.Roster.adopt

    def adopt_and_start(self: Any) -> None:
        adopt(self)
        for attempt in list(self._attempts.values()):
            if attempt.end is None and attempt.launch is not None:
                self.forkserver.launch(attempt.slot.path, None)

    converge.Roster.adopt = adopt_and_start  # type: ignore[method-assign]


def _claim_twice() -> None:
    """A claim can be taken by a second supervisor."""
    from scheduler.agent.runtime import records

    def claim(path: Any, record: object) -> bool:
        records.write_record(path, record, durable=True)
        return True

    records.claim_record = claim


MACHINERY: Mapping[str, Plant] = {
    "lease-unfenced": Plant(
        "two schedulers lead, and nothing refuses a second start or a second holder",
        on_server=_two_leaders,
        sql=(
            "DROP INDEX one_open_allocation_per_device",
            "DROP INDEX one_live_attempt_per_job",
            "DROP INDEX one_open_segment_per_device",
        ),
        enough=(20, 0),
        shows=("I1", "I3", "I4", "I6"),
        with_standby=True,
    ),
    "budget-unguarded": Plant(
        "starts are not held against budgets",
        on_server=_pay_for_all,
        jobs=("lasting",),
        enough=(12, 0),
        shows=("I12",),
    ),
    "accrued-twice": Plant(
        "devices are charged twice",
        on_server=_accrue_twice,
        sql=("DROP INDEX accrual_once_per_period",),
        shows=("I22",),
    ),
    "log-shifted": Plant("chunks of logs are a byte off", on_server=_shift_logs, shows=("I17",)),
    "submit-forgotten": Plant(
        "some accepted jobs are never written", on_server=_forget_submits, shows=("I14",)
    ),
    "key-forgotten": Plant(
        "idempotency keys are not kept",
        on_server=_forget_keys,
        kinds=("cut-submits",),
        enough=(10, 3),
        shows=("I15",),
    ),
    "past-cancelled": Plant(
        "a final state is changed by a cancel", on_server=_cancel_the_past, shows=("I4",)
    ),
    "given-up-early": Plant(
        "silent nodes are given up before they have killed what runs there",
        on_server=_give_up_early,
        kinds=("silence",),
        jobs=("lasting",),
        enough=(6, 3),
        shows=("I6",),
    ),
    "called-success": Plant(
        "an end that nobody saw counts as success",
        in_agent=_call_it_success,
        kinds=("supervisor-kill", "reboot"),
        jobs=("long",),
        enough=(6, 4),
        shows=("I7",),
    ),
    "pid-believed": Plant(
        "a supervisor is known by its pid alone",
        in_agent=_believe_pids,
        kinds=("pid-reused",),
        jobs=("long",),
        enough=(6, 3),
        settle_s=60.0,
        shows=("I8",),
    ),
    "left-behind": Plant(
        "processes of ended jobs live on",
        in_agent=_leave_behind,
        in_guard=_leave_behind,
        jobs=("daemon",),
        shows=("I2",),
    ),
    "started-again": Plant(
        "a returning agent starts what runs already, and nothing refuses it",
        in_agent=_start_again,
        in_guard=_claim_twice,
        kinds=("agent-replaced",),
        jobs=("lasting",),
        enough=(6, 4),
        shows=("I2", "I5", "I6"),
    ),
}
