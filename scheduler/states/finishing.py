"""Whether a job is done by the moment it has to be, as far as anybody can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from scheduler.states.shown import moment_words, rough_span


class FinishPolicy(StrEnum):
    """What becomes of a job that is not finished by its moment: it goes on, or it is ended."""

    KEEP = "keep"
    CANCEL = "cancel"


class Outlook(StrEnum):
    """How a job stands to the moment by which it has to be finished."""

    LIKELY = "likely"
    UNLIKELY = "unlikely"
    IMPOSSIBLE = "impossible"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """What people read for it."""
        return OUTLOOK_WORDS[self]


OUTLOOK_WORDS: Mapping[Outlook, str] = {
    Outlook.LIKELY: "likely to be met",
    Outlook.UNLIKELY: "unlikely to be met",
    Outlook.IMPOSSIBLE: "not to be met as things stand",
    Outlook.UNKNOWN: "nobody can say yet",
}


@dataclass(frozen=True, slots=True)
class Finish:
    """The moment, what is expected beside it, and the sentence for both.

    `slack_s` is what is left between the end in half of all cases and the moment, negative if that
    lies beyond it; of a job that is cancelled when late, between its start in half of all cases and
    the latest one that leaves its time limit. None: nobody knows.
    """

    finish_by: datetime
    finish_by_policy: FinishPolicy
    outlook: Outlook
    end_p50_at: datetime | None
    end_p90_at: datetime | None
    slack_s: int | None
    sentence: str


def latest_start(finish_by: datetime, policy: str, limit_s: int) -> datetime | None:
    """The last moment at which a job that is cancelled when late may start; None for others."""
    is_strict = policy == FinishPolicy.CANCEL
    return finish_by - timedelta(seconds=limit_s) if is_strict else None


def foresee_finish(
    finish_by: datetime,
    policy: str,
    limit_s: int,
    starts: tuple[datetime | None, datetime | None],
    runs_s: tuple[int, int],
    now: datetime,
) -> Finish:
    """Of a job that waits, or is not submitted: `starts` and `runs_s` are p50 and p90.

    Who is cancelled when late needs its whole time limit before the moment, or is not started.
    A start that was foreseen and did not come is taken for one now.
    """
    policy, until = FinishPolicy(policy), latest_start(finish_by, policy, limit_s)
    start_at, start_p90_at = (at and max(at, now) for at in starts)
    p50_at = start_at and start_at + timedelta(seconds=runs_s[0])
    p90_at = start_p90_at and start_p90_at + timedelta(seconds=runs_s[1])
    # What has to come no later than what, in nine of ten cases too.
    late_at, bound = (p90_at, finish_by) if until is None else (start_p90_at, until)
    if finish_by <= now or (until is not None and until < now):
        outlook, slack_s = Outlook.IMPOSSIBLE, None
    elif start_at is None or p50_at is None or p90_at is None:
        late_s = int((now + timedelta(seconds=runs_s[0]) - finish_by).total_seconds())
        is_late = until is None and late_s > 0
        outlook, slack_s = (Outlook.UNLIKELY, -late_s) if is_late else (Outlook.UNKNOWN, None)
    else:
        spare = finish_by - p50_at if until is None else until - start_at
        slack_s = int(spare.total_seconds())
        outlook = Outlook.LIKELY if slack_s >= 0 else Outlook.UNLIKELY
        if start_at >= finish_by:
            outlook = Outlook.IMPOSSIBLE
    is_sure = late_at is not None and late_at <= bound
    sentence = _sentence(outlook, slack_s, until, start_at, finish_by, is_sure=is_sure)
    return Finish(finish_by, policy, outlook, p50_at, p90_at, slack_s, sentence)


def _sentence(
    outlook: Outlook,
    slack_s: int | None,
    until: datetime | None,
    start_at: datetime | None,
    finish_by: datetime,
    *,
    is_sure: bool,
) -> str:
    if outlook is Outlook.UNKNOWN:
        return "Nobody can say yet whether it is finished by then: its start is not known."
    if slack_s is None:
        if until is not None:
            return "What is left is less than its time limit; it is not started any more."
        return "The moment is over."
    by, much = moment_words(finish_by), rough_span(abs(slack_s))
    if outlook is Outlook.LIKELY:
        words = f"It is likely to be finished by {by}, with {much} to spare"
        if until is not None:
            words = f"It is likely to start in time, with {much} to spare"
        return f"{words}." if is_sure else f"{words}, but not certain."
    if until is not None:
        return (
            f"It is expected to start {much} too late to leave its time limit before {by}; it is "
            "cancelled if it does not start sooner."
        )
    if outlook is Outlook.IMPOSSIBLE and start_at is not None:
        return f"It is expected to start only at {moment_words(start_at)}, after it was to be done."
    if start_at is None:
        return f"Even if it began at once, it would be expected to end {much} after {by}."
    return f"It is expected to end {much} after {by}."
