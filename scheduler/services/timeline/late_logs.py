"""Logs that go on coming once their attempt has ended here: which, how much of them, how long.

An attempt may be given up while its node is cut off, and ends after a while although its log has
not come. The node has the bytes all the same, and keeps them until it is told to forget them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q
from django.db.models.functions import Coalesce

from scheduler.conf import load_conf
from scheduler.models import Placement
from scheduler.services.timeline.clock import CLOCK
from scheduler.wire.messages import AttemptReport

# A node that cannot send it, or may not because it sent other bytes before, keeps it no longer.
_LONGEST = timedelta(days=7)


def told_size(report: AttemptReport) -> int:
    """How many bytes of the log are to come in all: those beyond the cap never will."""
    return min(report.log_size, load_conf().log_cap_mib * 1024 * 1024)


def takes_more(placement: Placement, now: datetime) -> bool:
    """Whether bytes of an ended attempt's log are still taken; loaded with its attempt.

    Not once it is whole by its node's word, no longer kept, or a week has gone by.
    """
    ended_at = placement.attempt.ended_at
    if placement.log_pruned_at is not None or ended_at is None:
        return False
    if CLOCK.age(ended_at, now) > _LONGEST:
        return False
    return placement.ran_told_at is None or placement.log_size < (placement.log_expected or 0)


def may_grow(now: datetime) -> Q:
    """In words of the database what `takes_more` looks at: ranks of ended attempts."""
    is_short = Q(ran_told_at__isnull=True) | Q(log_size__lt=Coalesce(F("log_expected"), 0))
    is_late = CLOCK.older_than("attempt__ended_at", _LONGEST, now=now)
    return Q(log_pruned_at__isnull=True) & is_short & ~is_late


def is_awaited(placement: Placement, report: AttemptReport, now: datetime) -> bool:
    """Whether the node that reports the end of an ended attempt has to keep its log for now."""
    return placement.log_size < told_size(report) and takes_more(placement, now)


def note_size(placement: Placement, report: AttemptReport) -> None:
    """How long the log of a given-up rank is by its node's word, so that pages tell what is missing
    of it. Told again it changes nothing."""
    size = told_size(report)
    if placement.ran_told_at is None and size > (placement.log_expected or 0):
        mine = Placement.objects.filter(pk=placement.pk, ran_told_at__isnull=True)
        mine.update(log_expected=size)
