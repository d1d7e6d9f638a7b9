"""What the page of a waiting job says of its wait."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from accounts.models import User
from scheduler.loop.supposing.in_time import finish_of_waiting
from scheduler.models import Job
from scheduler.selectors.jobs import wait_sentence_of
from scheduler.selectors.one_job.awaited import jobs_awaited, sets_awaited
from scheduler.selectors.queues import place_in_line, places_of
from scheduler.selectors.waits.deciding import Decided
from scheduler.states import (
    RETRY_PAUSES,
    WAITING_JOB_STATES,
    JobState,
    WaitReason,
    why_no_forecast,
)

# What the engine's facts are called on the page; a fact without a word here is not shown.
FACT_WORDS: Mapping[str, str] = {
    "need": "Needs",
    "free": "GPUs free",
    "total": "GPUs in the pool",
    "best": "Nodes that hold enough",
    "largest": "Largest node",
    "down": "Nodes that take no work",
    "nodes": "Nodes in the pool",
    "states": "Their states",
    "stopping": "Jobs stopping for it",
    "used": "GPUs held under the limit",
    "limit": "The limit",
    "who": "By",
}
_THEN = "It joins the line by itself then, in its old place; release it to try at once."
# What a held job waits for, and whose turn it is to do something.
NEXT_WORDS: Mapping[WaitReason, str] = {
    WaitReason.HELD_BY_USER: "The scheduler looks at it once it is released.",
    WaitReason.HELD_BY_ADMIN: "Only an operator releases it; ask them.",
    WaitReason.DEPENDENCY_WAIT: "It joins the line by itself when they end as it asks for.",
    WaitReason.BEGIN_TIME: "It joins the line by itself at that time.",
    **dict.fromkeys(RETRY_PAUSES, _THEN),
    WaitReason.ARRAY_LIMIT: "It joins the line by itself; there is nothing to do.",
    WaitReason.BUDGET_EXHAUSTED: (
        "It joins the line by itself when the budget has enough again: ask for more, or submit a "
        "shorter or smaller one."
    ),
    WaitReason.MAX_COST_SHORT: (
        "It joins the line by itself when GPUs cost less: give it a higher price, or let it ask "
        "for fewer or cheaper ones."
    ),
    WaitReason.APPROVAL_WAIT: "It joins the line when that is decided.",
}
BY_HAND = frozenset({WaitReason.HELD_BY_USER, WaitReason.HELD_BY_ADMIN})  # and released so


def why(job: Job, decided: Decided, now: datetime) -> dict[str, Any]:
    """The why panel: the sentence, the engine's own figures, the place in the line; as of when."""
    if job.state not in WAITING_JOB_STATES:
        return {}
    facts = [
        (word, job.wait_facts[key]) for key, word in FACT_WORDS.items() if key in job.wait_facts
    ]
    return {
        "why_sentence": wait_sentence_of(job),
        "why_next": next_words(job),
        "why_facts": facts,
        "finish": finish_of_waiting(job, now=now),
        **places_of(job),
        "is_next": place_in_line(job) == 1,
        "so_since": job.wait_checked_at,
        "decided": decided,
        "start_p50": _moment(job.wait_facts.get("start_p50_at")),
        "start_p90": _moment(job.wait_facts.get("start_p90_at")),
        "is_by_hand": job.state == JobState.HELD and job.wait_reason in BY_HAND,
        "start_why": _no_start(job),
        "next_free": _moment(job.wait_facts.get("next_free_at")),
    }


def awaited(viewer: User, job: Job) -> dict[str, Any]:
    """The jobs and arrays that it waits for, and how far they are."""
    return {"jobs_awaited": jobs_awaited(viewer, job), "sets_awaited": sets_awaited(viewer, job)}


def _no_start(job: Job) -> str:
    """Why nobody can say when it starts; empty where that is known or will be."""
    if job.state == JobState.HELD and job.wait_reason in set(WaitReason):
        return why_no_forecast(WaitReason(job.wait_reason))
    return str(job.wait_facts.get("start_why", ""))


def next_words(job: Job) -> str:
    """What lets a held job go on; empty for one that waits in the line."""
    if job.state != JobState.HELD or job.wait_reason not in set(WaitReason):
        return ""
    return NEXT_WORDS.get(WaitReason(job.wait_reason), "")


def _moment(epoch_s: object) -> datetime | None:
    """A time among the engine's facts; None for anything else."""
    return datetime.fromtimestamp(epoch_s, UTC) if isinstance(epoch_s, int) else None
