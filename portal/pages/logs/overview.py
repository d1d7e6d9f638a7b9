"""What the overview of a job shows of its log: the end of it, and how far it says it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portal.pages.logs.window import EMBEDDED, LogAsk, first_of_last, log_view
from scheduler.models import Job, LogChunk, Placement
from scheduler.selectors.freeing.emptying import likely_end
from scheduler.selectors.one_job.header import Header
from scheduler.selectors.printed.progress import Progress, pieces_telling, progress_of
from scheduler.selectors.printed.windows import pieces_of_window
from scheduler.states import JobState


@dataclass(frozen=True, slots=True)
class Pace:
    """How far it is by its own log, if that says so, and when it ends, if anything tells."""

    progress: Progress | None
    ends_at: datetime | None


def of_log(header: Header, now: datetime, *, may_read: bool, with_log: bool) -> dict[str, Any]:
    """`pace`, by its log before the runs that were alike: a program knows more of itself; and
    `log`, the end of what its first rank wrote. The pieces of the log are read once for both.

    `header` with tries, and with silences for the log.
    """
    job, latest = header.job, header.attempts[-1] if header.attempts else None
    ranks = latest.placements.all() if latest else ()
    first = next((one for one in ranks if one.rank == 0), None) if may_read else None
    began = latest.started_at if latest and job.state == JobState.RUNNING else None
    pieces = None
    if first is not None and began is not None:
        ends = [pieces_of_window(first, first_of_last(first, EMBEDDED), EMBEDDED)]
        pieces = pieces_telling(first, *ends[: int(with_log)])
    found: dict[str, Any] = {"pace": _pace(job, first, pieces, began, now)}
    if with_log and may_read:
        ask = LogAsk(None, 0, None, EMBEDDED)
        found["log"] = log_view(job, first, ask, silences=header.silences, pieces=pieces)
    return found


def _pace(
    job: Job,
    first: Placement | None,
    pieces: list[LogChunk] | None,
    began: datetime | None,
    now: datetime,
) -> Pace:
    if began is None:
        return Pace(None, None)
    progress = progress_of(first, now=now, pieces=pieces) if first is not None else None
    if progress is not None:
        return Pace(progress, progress.ends_at)
    return Pace(None, likely_end(job, began, now=now))
