"""Why an attempt ended, from what its ranks reported and what was asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.models import Attempt, Placement
from scheduler.spec.units import format_duration, format_size_mib
from scheduler.states import EndReason


def verdict(
    attempt: Attempt, placements: Sequence[Placement]
) -> tuple[EndReason, dict[str, Any], int | None]:
    """The reason that counts: success of all ranks, else what was asked for, else rank by rank."""
    ended = sorted((p for p in placements if p.ended_at), key=lambda p: (p.ended_at, p.rank))
    failures = [p for p in ended if p.end_reason != EndReason.COMPLETED]
    if ended and not failures:
        return EndReason.COMPLETED, {}, 0
    first = failures[0] if failures else None
    reason = EndReason(attempt.stop_reason or (first.end_reason if first else EndReason.NODE_LOST))
    culprit = next((p for p in failures if p.end_reason == reason), first)
    facts: dict[str, Any] = {}
    if culprit is not None:
        facts = {"node": culprit.node.name, "rank": culprit.rank, "detail": culprit.detail}
        if culprit.exit_code is not None:
            facts["exit_code"] = culprit.exit_code
    if reason in (EndReason.CANCELLED_BY_USER, EndReason.CANCELLED_BY_ADMIN):
        facts["who"] = attempt.stop_actor_name
    if reason is EndReason.TIME_LIMIT:
        facts["limit"] = format_duration(attempt.job.time_limit_s)
    if reason is EndReason.OUT_OF_MEMORY:
        facts["limit"] = format_size_mib(attempt.job.memory_mib)
    return reason, facts, culprit.exit_code if culprit else None
