"""Why an attempt ended, from what its ranks reported and what was asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scheduler.models import Attempt, Placement
from scheduler.models.attempts import NODE_FAULTS
from scheduler.selectors.one_job.tails import tails_of
from scheduler.services.holding.reasons import word_of
from scheduler.services.prices.highest import held_by_price
from scheduler.spec.units import format_duration, format_size_mib
from scheduler.states import INFRASTRUCTURE, PAUSES, EndReason
from scheduler.triage import Failure, Finding, judge

_BY_SOMEBODY = PAUSES | {EndReason.CANCELLED_BY_USER, EndReason.CANCELLED_BY_ADMIN}
# Whose sentences were filled when they were asked to stop.
_SAID = (
    EndReason.RESIZED,
    EndReason.SESSION_IDLE,
    EndReason.IDLE_PAUSED,
    EndReason.IDLE_STOPPED,
    EndReason.SUPERSEDED,
    EndReason.CODE_DIFFERS,
    EndReason.BOOKING_ENDED,
    EndReason.FINISH_BY_REACHED,
)
_CONFIRMS = (EndReason.DEVICE_FAILED, EndReason.NODE_LOST)
# What older agents say of a rank that a stop kept from beginning; it is nothing of their own.
_NEVER_BEGAN = "stopped before the program was started"


def verdict(
    attempt: Attempt, placements: Sequence[Placement]
) -> tuple[EndReason, dict[str, Any], int | None]:
    """The reason that counts: success of all ranks, else what was asked for, else rank by rank."""
    ended = sorted((p for p in placements if p.ended_at), key=lambda p: (p.ended_at, p.rank))
    failures = [p for p in ended if p.end_reason != EndReason.COMPLETED]
    # What ranks with different code have made is no success.
    if ended and not failures and attempt.stop_reason != EndReason.CODE_DIFFERS:
        return EndReason.COMPLETED, {}, 0
    first = failures[0] if failures else None
    asked = node_fault_before(attempt) or attempt.stop_reason
    reason = EndReason(asked or (first.end_reason if first else EndReason.NODE_LOST))
    culprit = next((p for p in failures if p.end_reason == reason), first)
    if reason == _fault_of(attempt):
        culprit = next((p for p in failures if p.rank in _ranks_at_fault(attempt)), culprit)
    if reason is EndReason.NODE_DRAINED:
        culprit = next((p for p in failures if p.node.drain_requested_at), culprit)
    facts: dict[str, Any] = {}
    if culprit is not None:
        facts = {"node": culprit.node.name, "rank": culprit.rank, "detail": culprit.detail}
        if culprit.exit_code is not None:
            facts["exit_code"] = culprit.exit_code
    if reason in _BY_SOMEBODY:
        facts |= who_stopped(attempt)
    if reason is EndReason.PREEMPTED:
        whom = attempt.stopped_for_id
        facts |= {"for_whom": f"job {whom}" if whom else "a more important job"}
        if attempt.stop_actor_name:
            facts["for_whom"] += f" (given back to {attempt.stop_actor_name})"
        facts |= {"beneficiary": whom} if whom else {}
    if reason in _SAID:
        facts |= {name: said for name, said in (attempt.stop_facts or {}).items() if name != "by"}
    if reason is EndReason.TIME_LIMIT and held_by_price(attempt):
        reason = EndReason.MAX_COST_REACHED
    if reason is EndReason.TIME_LIMIT:
        facts["limit"] = format_duration(attempt.job.time_limit_s)
    if reason is EndReason.BOOKING_ENDED:
        facts["booking"] = attempt.job.booked_in_id
    if reason is EndReason.OUT_OF_MEMORY:
        facts["limit"] = format_size_mib(attempt.job.memory_mib)
    return reason, facts, culprit.exit_code if culprit else None


def blame_who_failed(attempt: Attempt, mine: Placement, placements: Sequence[Placement]) -> None:
    """A rank that was stopped over another node's fault says so, not that its own node failed.

    It repeats the reason it was told. Without this the retry would avoid a healthy node, and the
    lost or broken one would be used again. Who is at fault is told what the fault is.
    """
    has_own_words = mine.detail not in ("", _NEVER_BEGAN)
    if mine.end_reason != _fault_of(attempt) or has_own_words:
        return
    ranks = _ranks_at_fault(attempt)
    at_fault = next((p for p in placements if p.rank in ranks), None)
    if mine.rank in ranks:
        mine.detail = str((attempt.stop_facts or {}).get("fault") or mine.detail)
    elif at_fault is not None:
        mine.end_reason = EndReason.EXIT_CODE
        mine.detail = f"stopped because of rank {at_fault.rank} on node {at_fault.node.name}"


def _fault_of(attempt: Attempt) -> str | None:
    """The fault of a node that it is being stopped for; None for any other stop."""
    asked = node_fault_before(attempt) or attempt.stop_reason
    return asked if asked in NODE_FAULTS else None


def _ranks_at_fault(attempt: Attempt) -> Sequence[int]:
    return (attempt.stop_facts or {}).get("at_fault", ())


def who_stopped(attempt: Attempt) -> dict[str, Any]:
    """Their name as of then, and what they said; names may be alike, so `who_id` tells which one
    person it was."""
    facts = attempt.stop_facts or {}
    word = word_of(facts.get("because", ""))
    return {"who": attempt.stop_actor_name, "who_id": facts.get("by"), **word}


def node_fault_before(attempt: Attempt) -> str:
    """Why it was being stopped already, at no fault of its own, before somebody wanted it to stop;
    "" if it was not."""
    return str((attempt.stop_facts or {}).get("node_fault", ""))


def triage(
    attempt: Attempt,
    placements: Sequence[Placement],
    reason: EndReason,
    facts: dict[str, Any],
    exit_code: int | None,
) -> tuple[Finding, EndReason, dict[str, Any]]:
    """The finding, and the reason that counts with its facts.

    Logs advise, nodes decide: the reason moves from the program to the platform only when a
    *node* gave up a rank or one of its cards, and the log says that the program lost that peer.
    """
    rank = int(facts.get("rank", 0))
    failure = Failure(
        reason,
        exit_code,
        str(facts.get("detail", "")),
        rank,
        _others(placements, rank),
        tails_of(placements, rank) if reason is EndReason.EXIT_CODE else (),
    )
    finding = judge(failure)
    if reason is EndReason.EXIT_CODE and finding.is_confirmed:
        gone = next((p for p in placements if p.end_reason in _CONFIRMS), None)
        if finding.failure in INFRASTRUCTURE and gone is not None:
            reason = EndReason(gone.end_reason)
            facts = {"node": gone.node.name, "rank": gone.rank, "detail": gone.detail}
    return finding, reason, facts


def _others(placements: Sequence[Placement], rank: int) -> tuple[EndReason, ...]:
    """How the other ranks ended; who ended well only afterwards tells nothing of the cause."""
    ended_at = next((p.ended_at for p in placements if p.rank == rank), None)
    return tuple(
        EndReason(p.end_reason)
        for p in placements
        if p.end_reason
        and p.rank != rank
        and (p.end_reason != EndReason.COMPLETED or _is_before(p.ended_at, ended_at))
    )


def _is_before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one < other
