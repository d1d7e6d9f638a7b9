"""Bugs in schedules of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from portal.torture.plants.kinds import Plant


def _carry_out_twice() -> None:
    """A due time is carried out once more by whoever comes second, and nothing refuses it."""
    running: Any = import_module("scheduler.services.recurring.running")
    carry_out = running.carry_out

    def twice(pk: int, *, now: Any) -> Any:
        from django.db import transaction

        run = carry_out(pk, now=now)
        if run is not None and run.job_id is not None:
            with transaction.atomic():
                schedule = run.schedule
                running._submitted(schedule, schedule.owner, run.due_at, now, [])
        return run

    running.carry_out = twice


def _pass_over() -> None:
    """A due time that nobody looked at in time is forgotten, now and then."""
    running: Any = import_module("scheduler.services.recurring.running")
    go, seen = running._go, [0]

    def forgetful(*args: Any) -> Any:
        seen[0] += 1
        return None if seen[0] % 3 == 0 else go(*args)

    running._go = forgetful


def _wait_for_nobody() -> None:
    """Nobody looks whether an earlier job of the schedule goes on."""
    running: Any = import_module("scheduler.services.recurring.running")
    running._make_way = lambda schedule, now: []


def _go_on_paused() -> None:
    """A pause is written down, and the next due time stays."""
    keeping: Any = import_module("scheduler.services.recurring.keeping")
    write = keeping.set_paused

    def paused(schedule: Any, *args: Any, **options: Any) -> None:
        due = schedule.next_due_at
        write(schedule, *args, **options)
        schedule.next_due_at = due
        schedule.save(update_fields=["next_due_at"])

    keeping.set_paused = paused


REPEATING: Mapping[str, Plant] = {
    "due-doubled": Plant(
        "a due time of a schedule brings two jobs",
        on_server=_carry_out_twice,
        sql=("ALTER TABLE scheduler_jobschedulerun DROP CONSTRAINT schedule_run_once",),
        enough=(1_000, 0),
        shows=("I34",),
        with_helpers=True,
        repeats=True,
    ),
    "due-forgotten": Plant(
        "some due times of schedules pass and nothing comes of them",
        on_server=_pass_over,
        enough=(1_000, 0),
        shows=("I34",),
        with_helpers=True,
        repeats=True,
    ),
    "turn-untaken": Plant(
        "the next job of a schedule does not wait for the one before",
        on_server=_wait_for_nobody,
        enough=(1_000, 0),
        shows=("I35",),
        with_helpers=True,
        repeats=True,
    ),
    "pause-ignored": Plant(
        "a paused schedule goes on",
        on_server=_go_on_paused,
        enough=(1_000, 0),
        shows=("I35",),
        with_helpers=True,
        repeats=True,
    ),
}
