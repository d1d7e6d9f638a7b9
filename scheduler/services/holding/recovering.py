"""Who pays for another attempt by the reason of the last one, and the pause before it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from scheduler.conf import load_conf
from scheduler.models import Attempt, Job
from scheduler.services.holding.obstacles import pause_obstacle
from scheduler.states import (
    END_RULES,
    MADE_TO_MOVE,
    MAX_FREE_RETRIES,
    EndReason,
    FailureClass,
)

# These ends are the platform's own doing; they may happen any number of times.
WITHOUT_LIMIT = MADE_TO_MOVE | {EndReason.NODE_DRAINED, EndReason.BUDGET_SPENT}
# The pause grows up to sixteen times the first one.
_DOUBLINGS = 4


def usually_follows(job: Job, reason: EndReason) -> str:
    """Who pays for another attempt: "free", "user", or nobody ("")."""
    rule = END_RULES[reason]
    if rule.retry_free and (reason in WITHOUT_LIMIT or job.free_retries_used < MAX_FREE_RETRIES):
        return "free"
    return "user" if rule.uses_user_retry and job.user_retries_used < job.retries else ""


def wait_before_retry(ended: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """What keeps a job that is to be tried again until the pause is over that its attempt's end
    tells; empty where there is none."""
    if "pause_s" not in ended:
        return {}
    begin_at = now + timedelta(seconds=ended["pause_s"])
    obstacle = pause_obstacle(begin_at, ended, now)
    if obstacle is None:
        return {}
    return {
        "begin_at": begin_at,
        "wait_reason": obstacle.reason,
        "wait_facts": obstacle.facts,
        "wait_checked_at": now,
    }


def storage_pause(
    attempt: Attempt, facts: Mapping[str, object], *, is_confirmed: bool
) -> dict[str, object]:
    """What an attempt's end says of the pause after it: `pause_s`, whole seconds, and `pause_why`.

    Twice as long with each failure of this kind in a row; empty where an operator wants none.
    `is_confirmed`: a node says that storage failed, not only what the program printed.
    """
    first_s = load_conf().storage_pause_s
    if not first_s:
        return {}
    before = attempt.job.attempts.filter(number__lt=attempt.number).order_by("-number")
    latest = before.values_list("failure", flat=True)[: 2 * _DOUBLINGS]
    times = 1 + sum(1 for _ in takewhile(lambda one: one == FailureClass.INFRA_STORAGE, latest))
    again = f", {times} times in a row" if times > 1 else ""
    where = f"Storage failed on node {facts.get('node', '?')}"
    why = f"{where if is_confirmed else 'Its log tells of failing storage'}{again}"
    return {"pause_s": first_s << min(times - 1, _DOUBLINGS), "pause_why": why}
