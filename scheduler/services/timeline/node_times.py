"""Moments that a node tells by its own clock, brought to the server's, and what is written late."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import Value
from django.db.models.functions import Coalesce

from accounts.services.audit import record
from scheduler.models import Placement
from scheduler.wire.messages import AttemptReport


def take_late(
    placement: Placement, report: AttemptReport, clock_ahead_s: float, now: datetime
) -> None:
    """What the program of an attempt that was given up did, from a node that is heard again.

    Only the books rest on it: the attempt ended as it did. The first word stands.
    """
    if placement.ran_until is not None or report.ended_at is None or report.started_at is None:
        return
    earliest = placement.attempt.assigned_at
    until = ran_until(report, earliest, clock_ahead_s, now)
    began = sane(report.started_at - clock_ahead_s, earliest, now)
    told = {
        "ran_until": until,
        "ran_told_at": now,
        "started_at": Coalesce("started_at", Value(began)),
    }
    if Placement.objects.filter(pk=placement.pk, ran_until__isnull=True).update(**told):
        job = placement.attempt.job
        after = {"attempt": placement.attempt_id, "rank": placement.rank, "ran_until": until}
        record(None, "job.tell_late", job, after=after, now=now)


def ran_until(
    report: AttemptReport, earliest: datetime, clock_ahead_s: float, now: datetime
) -> datetime | None:
    """When the program ended by the server's clock; None where its node does not say."""
    if report.ended_at is None:
        return None
    return sane(report.ended_at - clock_ahead_s, earliest, now)


def sane(epoch_s: float, earliest: datetime, latest: datetime) -> datetime:
    """A node's own time, kept within what the server knows."""
    try:
        moment = datetime.fromtimestamp(epoch_s, UTC)
    except (OverflowError, ValueError, OSError):
        return latest
    return min(max(moment, earliest), latest)
