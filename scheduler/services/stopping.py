"""Asking an attempt to stop: cancel, pause, time limit, preemption, drain share one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from accounts.models import User
from scheduler.models import Attempt, Job, Placement
from scheduler.models.attempts import NODE_FAULTS
from scheduler.services import transitions
from scheduler.services.history import record_event
from scheduler.services.holding.reasons import word_of
from scheduler.states import PAUSES, AttemptState, EndReason, JobState

_CANCELS = frozenset(
    {EndReason.CANCELLED_BY_USER, EndReason.CANCELLED_BY_ADMIN, EndReason.SUPERSEDED}
)


def request_stop(
    *,
    attempt: Attempt,
    reason: EndReason,
    now: datetime,
    actor: User | None = None,
    because_of: Sequence[Placement] = (),
    make_room_for: Job | None = None,
    facts: Mapping[str, object] | None = None,
    said: Mapping[str, object] | None = None,
    who: str = "",
    because: str = "",
) -> bool:
    """Tell the attempt's nodes to stop it; the end comes with their reports.

    Expects `attempt.job` loaded. What a person wants overrides the reason of a stop already under
    way, a cancel also a pause, so that such a job does not queue again. `because_of` are the ranks
    at fault. `make_room_for` and `facts` say for whom and what spoke for it, also who takes back
    what was lent; `said` fills the sentence; `who` asked, if not just the actor, and `because` is
    their word. False: all over.
    """
    if attempt.state == AttemptState.ENDED:
        return False
    # Two who ask together are none of them.
    behind = _behind(actor.pk if actor and not who else None, because)
    who = who or (actor.get_full_name() if actor else str((facts or {}).get("given_back_to", "")))
    if attempt.state == AttemptState.STOPPING:
        return _override(attempt, reason, who, actor, {**(said or {}), **behind}, now)
    moved = transitions.move_attempt(
        attempt,
        AttemptState.STOPPING,
        now=now,
        stop_reason=reason,
        stop_actor_name=who,
        stop_facts={**(said or {}), **behind, **_at_fault(reason, because_of)} or None,
        stopping_at=now,
        stopped_for=make_room_for,
    )
    if not moved:
        return False
    more = {**(facts or {}), **(said or {}), **_whom(because_of, make_room_for), **word_of(because)}
    _move_its_job(attempt, actor, {"attempt": attempt.number, "reason": reason, **more}, now)
    transitions.change_desired(attempt.placements.values_list("node_id", flat=True))
    return True


def _move_its_job(
    attempt: Attempt, actor: User | None, detail: Mapping[str, object], now: datetime
) -> None:
    if attempt.job.state in (JobState.STARTING, JobState.RUNNING):
        transitions.move_job(
            attempt.job,
            JobState.STOPPING,
            now=now,
            kind="stop_requested",
            actor=actor,
            attempt=attempt,
            detail=detail,
        )


def weight_of(reason: str) -> int:
    """Of two reasons for one stop the heavier one holds; a cancel is the heaviest."""
    if reason in _CANCELS:
        return 3
    return 2 if reason == EndReason.PAUSED_BY_ADMIN else 1 if reason in PAUSES else 0


def _override(
    attempt: Attempt,
    reason: EndReason,
    who: str,
    actor: User | None,
    behind: Mapping[str, object],
    now: datetime,
) -> bool:
    """Another reason for a stop under way, if it weighs more; `behind`: who, and what is said."""
    if weight_of(reason) <= weight_of(attempt.stop_reason):
        return False
    # For a node's fault it ends at nobody's cost, whatever becomes of the job.
    is_fault = attempt.stop_reason in NODE_FAULTS
    fault = {"node_fault": str(attempt.stop_reason)} if is_fault else {}
    # What the one before them said is not their word.
    kept = {key: one for key, one in (attempt.stop_facts or {}).items() if key != "because"}
    changes: dict[str, object] = {
        "stop_reason": reason,
        "stop_actor_name": who,
        "stop_facts": {**kept, **fault, "by": None, **behind},
    }
    detail = {
        "attempt": attempt.number,
        "reason": reason,
        "instead_of": attempt.stop_reason,
        **{name: one for name, one in behind.items() if name != "by"},
    }
    Attempt.objects.filter(pk=attempt.pk).update(**changes)
    attempt.refresh_from_db(fields=list(changes))
    record_event(
        attempt.job, "stop_requested", now=now, actor=actor, attempt=attempt, detail=detail
    )
    return True


def _behind(by: int | None, because: str) -> dict[str, object]:
    return {**({"by": by} if by else {}), **word_of(because)}


def _at_fault(reason: str, because_of: Sequence[Placement]) -> dict[str, object]:
    ranks = [one.rank for one in because_of] if reason in NODE_FAULTS else []
    return {"at_fault": ranks} if ranks else {}


def _whom(because_of: Sequence[Placement], make_room_for: Job | None) -> dict[str, object]:
    """Who is behind a stop: the rank that failed, or the job that gets the room."""
    if because_of:
        return {"rank": because_of[0].rank, "node": because_of[0].node.name}
    if make_room_for is not None:
        return {"beneficiary": make_room_for.pk, "for_whom": f"job {make_room_for.pk}"}
    return {}
