"""Whether a job can be finished by the moment it names at all, before it is accepted."""

from __future__ import annotations

from datetime import datetime, timedelta

from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.units import format_duration
from scheduler.states import FinishPolicy, moment_words

FARTHEST_FINISH = timedelta(days=2 * 366)
_FIELD = "finish_by"
_COARSE_S, _MINUTE_S = 600, 60


def refuse_unfinishable(spec: JobSpec, now: datetime, booked_from: datetime | None = None) -> None:
    """Raises SpecInvalid for a moment that is over, that lies before the job may begin, or that
    leaves less than the time limit of a job that is cancelled when late."""
    if spec.finish_by is None:
        return
    if spec.finish_by <= now:
        raise _refused("is over already; choose a later moment")
    if spec.finish_by - now > FARTHEST_FINISH:
        raise _refused("lies more than two years ahead; choose a nearer moment")
    if booked_from is not None and spec.finish_by <= booked_from:
        begins = moment_words(booked_from)
        raise _refused(f"lies before its booking begins, {begins}; choose a later moment")
    if FinishPolicy(spec.finish_by_policy) is FinishPolicy.CANCEL:
        earliest = max(at for at in (now, spec.begin, booked_from) if at is not None)
        refuse_too_long(spec.finish_by, spec.time_limit, earliest)


def refuse_too_long(finish_by: datetime, limit_s: int, earliest: datetime) -> None:
    """Raises SpecInvalid where a whole time limit does not fit before the moment any more."""
    room_s = int((finish_by - earliest).total_seconds())
    if limit_s <= room_s:
        return
    limit, room = format_duration(limit_s), format_duration(_rounded(room_s))
    raise _refused(
        f"leaves {room} for a time limit of {limit}, and a job that is cancelled when late is not "
        f"started then; choose a time limit of {room} at most, a later moment, or "
        "finish_by_policy: keep"
        if room_s >= _MINUTE_S
        else "leaves no time for it, and it is cancelled when late; choose a later moment, or "
        "finish_by_policy: keep"
    )


def _rounded(seconds: int) -> int:
    """Whole minutes where seconds say nothing."""
    return seconds - seconds % _MINUTE_S if seconds >= _COARSE_S else seconds


def _refused(words: str) -> SpecInvalid:
    return SpecInvalid([SpecProblem(_FIELD, words)])
