"""What an end cost: work since the last confirmed checkpoint."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from scheduler.models import Allocation, Attempt
from scheduler.spec.units import format_duration


def lost_work(attempt: Attempt, *, started_at: datetime | None, now: datetime) -> dict[str, Any]:
    """Facts of an end: `lost_s` since the last confirmed checkpoint, or since the start without
    one, `lost_gpu_s` on all its devices together (allocated seconds), `lost` in words, and
    `checkpoint_step`. Empty when the program never ran.
    """
    if started_at is None:
        return {}
    end = attempt.released_at or now
    since = max(started_at, attempt.checkpoint_at or started_at)
    held = Allocation.objects.filter(placement__attempt=attempt)
    gpu_s = sum(
        max(0.0, ((released or end) - max(acquired, since)).total_seconds())
        for acquired, released in held.values_list("acquired_at", "released_at")
    )
    lost_s = max(0.0, (end - since).total_seconds())
    step = attempt.checkpoint_step
    if step is None:
        step = attempt.resume_step
    facts: dict[str, Any] = {
        "lost_s": round(lost_s),
        "lost_gpu_s": round(gpu_s),
        "lost": _in_words(round(lost_s)),
    }
    return facts if step is None else facts | {"checkpoint_step": step}


def _in_words(seconds: int) -> str:
    """A length of time in its two largest units: a loss is no measurement."""
    coarse = seconds - seconds % (3600 if seconds >= 86_400 else 60 if seconds >= 3600 else 1)
    return format_duration(coarse)
