"""What an end cost: work since the last confirmed checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.models import Allocation, Attempt
from scheduler.models.attempts import NODE_FAULTS
from scheduler.spec.units import format_duration
from scheduler.states import EndReason

# The next attempt avoids the node on which these happened.
_LEAVES_NODE = {*NODE_FAULTS, EndReason.NODE_DRAINED}


def lost_work(
    attempt: Attempt,
    reason: EndReason,
    ended: Mapping[str, Any],
    *,
    started_at: datetime | None,
    now: datetime,
) -> dict[str, Any]:
    """Facts of an end: `lost_s` since the last confirmed checkpoint, or since the start without
    one within reach, `lost_gpu_s` on all its devices together (allocated seconds), `lost` in words,
    `checkpoint_step`, and `checkpoint_on`: the node it stays behind on. Empty when the program
    never ran. `ended`: what is known of the end so far.
    """
    if started_at is None:
        return {}
    end = attempt.released_at or now
    step = attempt.checkpoint_step
    if step is None:
        step = attempt.resume_step
    left_on = "" if step is None else _left_on(attempt, reason, ended)
    since = started_at if left_on else max(started_at, attempt.checkpoint_at or started_at)
    held = Allocation.objects.filter(placement__attempt=attempt)
    gpu_s = sum(
        max(0.0, ((released or end) - max(acquired, since)).total_seconds())
        for acquired, released in held.values_list("acquired_at", "released_at")
    )
    lost_s = max(0.0, (end - since).total_seconds())
    facts: dict[str, Any] = {
        "lost_s": round(lost_s),
        "lost_gpu_s": round(gpu_s),
        "lost": _in_words(round(lost_s)),
    }
    facts |= {"checkpoint_on": left_on} if left_on else {}
    return facts if step is None else facts | {"checkpoint_step": step}


def _left_on(attempt: Attempt, reason: EndReason, ended: Mapping[str, Any]) -> str:
    """The node that keeps the checkpoint in its own folder, where the job goes on without it."""
    is_there = reason in _LEAVES_NODE and ended.get("rank") == 0
    return str(ended["node"]) if is_there and not attempt.job.spec.get("checkpoint_dir") else ""


def _in_words(seconds: int) -> str:
    """A length of time in its two largest units: a loss is no measurement."""
    coarse = seconds - seconds % (3600 if seconds >= 86_400 else 60 if seconds >= 3600 else 1)
    return format_duration(coarse)
