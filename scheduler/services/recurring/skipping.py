"""Due times that go by without a job: while an earlier one goes on, one that nobody has carried
out, and those of a pause."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile

from scheduler.models import JobSchedule, JobScheduleRun
from scheduler.spec.recurring.dues import dues_after
from scheduler.spec.recurring.words import RunOutcome
from scheduler.states import moment_words

# Beyond so many nobody counts them one by one.
_COUNTED = 1000
_MOMENT = timedelta(microseconds=1)
_SINCE = " since "


def skip_time(
    schedule: JobSchedule, first: datetime, due: datetime, now: datetime, why: str
) -> JobScheduleRun:
    """Of a locked one: leave out this due time, and all since `first`. Of times that are left out
    one after the other for the same reason the last one stands for all, and says since when: a job
    of days would else fill the list, and whatever reads it."""
    before = schedule.runs.filter(by_hand=False).order_by("-due_at", "-pk").first()
    words = f" Stands for every time missed{_SINCE}{moment_words(first)}." if first < due else ""
    if before is not None and before.due_at < due and _is_so(before, why):
        begun = before.said.partition(_SINCE)[2] or f"{moment_words(before.due_at)}."
        words = f" Stands for every time skipped{_SINCE}{begun}"
        before.delete()
    said = f"{why}.{words}"[:400]
    facts = {"at": now, "outcome": RunOutcome.SKIPPED, "said": said}
    return schedule.runs.create(due_at=due, by_hand=False, **facts)


def _is_so(run: JobScheduleRun, why: str) -> bool:
    return run.outcome == RunOutcome.SKIPPED and run.said.startswith(f"{why}.")


def skip_due(schedule: JobSchedule, now: datetime, said: str) -> None:
    """Of a locked one: a time that has come and that nobody has carried out is skipped, and says
    why."""
    due = schedule.next_due_at
    if due is not None and due <= now:
        facts = {"at": now, "outcome": RunOutcome.SKIPPED, "said": said[:400]}
        schedule.runs.get_or_create(due_at=due, by_hand=False, defaults=facts)


def times_of_pause(schedule: JobSchedule, now: datetime) -> int | str:
    """How many due times a paused one has left out until now, by its rule and dates of now; in
    words where they are many. They have no rows of their own: a pause may be long."""
    if schedule.paused_at is None or schedule.unread:
        return 0
    after, until = schedule.paused_at, now
    if schedule.starts_at is not None:
        after = max(after, schedule.starts_at - _MOMENT)
    if schedule.ends_at is not None:
        until = min(until, schedule.ends_at)
    gone = takewhile(
        lambda due: due <= until, dues_after(schedule.time_rule, schedule.zone_info, after)
    )
    count = sum(1 for _ in islice(gone, _COUNTED + 1))
    return count if count <= _COUNTED else f"more than {_COUNTED}"
