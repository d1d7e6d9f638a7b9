"""How far the tasks of arrays are, counted by the database."""

from __future__ import annotations

from django.db.models import Count, Q

from scheduler.states import FINAL_JOB_STATES, JobState


def has_ended(tasks: str = "") -> Q:
    """Of a task; `tasks`: the way to it from the row that is asked, such as `on__tasks__`."""
    return Q(**{f"{tasks}state__in": FINAL_JOB_STATES})


def ended_well(tasks: str = "") -> Q:
    """The same, of success alone."""
    return Q(**{f"{tasks}state": JobState.SUCCEEDED})


def has_begun(tasks: str = "") -> Q:
    """Whether it has started, or ended without."""
    return has_ended(tasks) | Q(**{f"{tasks}started_at__isnull": False})


def tasks_counted(tasks: str = "") -> dict[str, Count]:
    """To annotate with: how many there are (`size`), have `ended`, ended `well`, have `begun`."""
    what = f"{tasks}pk"
    return {
        "size": Count(what),
        "ended": Count(what, filter=has_ended(tasks)),
        "well": Count(what, filter=ended_well(tasks)),
        "begun": Count(what, filter=has_begun(tasks)),
    }
