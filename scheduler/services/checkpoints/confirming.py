"""What rank 0's node says of an attempt's checkpoints: the newest confirmed one is kept."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from typing import Any

from scheduler.models import Attempt, Placement
from scheduler.services import transitions
from scheduler.wire.messages import AttemptReport, Checkpoint

MAX_PATH = 1024
_MAX_PROBLEM = 255
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

logger = logging.getLogger(__name__)


def tells_news(placement: Placement, report: AttemptReport) -> bool:
    """Whether a report changes what is known of the attempt's checkpoints or its resume."""
    attempt = placement.attempt
    if placement.rank != 0:
        return False
    return (
        _newer(attempt, report.checkpoint) is not None
        or report.checkpoint_problem[:_MAX_PROBLEM] != attempt.checkpoint_problem
        or _resume_is_news(attempt, report)
    )


def take_in_checkpoint(
    attempt: Attempt, report: AttemptReport, *, clock_ahead_s: float, now: datetime
) -> None:
    """Keep what rank 0 reports; call under the attempt's row lock.

    Only a higher step than the last one counts, so repeated and late reports change nothing.
    `clock_ahead_s`: the node's clock less the server's, taken off the time of the checkpoint.
    """
    changed: dict[str, Any] = {}
    found = _newer(attempt, report.checkpoint)
    earlier = attempt.checkpoint_at
    if found is not None:
        changed = {
            "checkpoint_at": _taken_at(attempt, found, clock_ahead_s, now),
            "checkpoint_step": found.step,
            "checkpoint_path": found.path,
            "checkpoint_bytes": found.bytes,
            "checkpoint_digest": found.digest,
        }
    if report.checkpoint_problem[:_MAX_PROBLEM] != attempt.checkpoint_problem:
        changed["checkpoint_problem"] = report.checkpoint_problem[:_MAX_PROBLEM]
    changed |= _resume_facts(attempt, report, now)
    if not changed:
        return
    Attempt.objects.filter(pk=attempt.pk).update(**changed)
    for name, value in changed.items():
        setattr(attempt, name, value)
    # A program may take one every second; its history is told once a minute.
    if found is not None and (earlier is None or _minute(earlier) != _minute(now)):
        transitions.record_event(
            attempt.job,
            "checkpoint",
            now=now,
            attempt=attempt,
            detail={"attempt": attempt.number, "step": found.step, "bytes": found.bytes},
        )
    transitions.tell_of_job(attempt.job)


def _newer(attempt: Attempt, found: Checkpoint | None) -> Checkpoint | None:
    """The checkpoint if it is further than all that is known; one that cannot be is dropped."""
    if found is None:
        return None
    known = [step for step in (attempt.checkpoint_step, attempt.resume_step) if step is not None]
    if known and found.step <= max(known):
        return None
    is_sound = (
        found.step >= 0
        and found.bytes >= 0
        and 0 < len(found.path) <= MAX_PATH
        and _DIGEST.fullmatch(found.digest) is not None
    )
    if not is_sound:
        logger.warning("attempt %s: its node reports an impossible checkpoint", attempt.pk)
    return found if is_sound else None


def _taken_at(attempt: Attempt, found: Checkpoint, clock_ahead_s: float, now: datetime) -> datetime:
    """The node's time by the server's clock, kept within the attempt's life."""
    earliest = attempt.started_at or attempt.assigned_at
    try:
        moment = datetime.fromtimestamp(found.taken_at - clock_ahead_s, UTC)
    except (OverflowError, ValueError, OSError):
        return earliest
    return min(max(moment, earliest), now)


def _resume_is_news(attempt: Attempt, report: AttemptReport) -> bool:
    if attempt.resume_from:
        return False
    return bool(report.resumed_from) or (
        bool(report.resume_problem)
        and report.resume_problem[:_MAX_PROBLEM] != attempt.resume_problem
    )


def _resume_facts(attempt: Attempt, report: AttemptReport, now: datetime) -> dict[str, Any]:
    """What the node resumed from, told once, as an event too."""
    if not _resume_is_news(attempt, report):
        return {}
    if report.resumed_from:
        changed: dict[str, Any] = {
            "resume_from": report.resumed_from[:MAX_PATH],
            "resume_step": report.resumed_step,
            "resume_problem": "",
        }
        kind, detail = "resumed", {"step": report.resumed_step}
    else:
        changed = {"resume_problem": report.resume_problem[:_MAX_PROBLEM]}
        kind, detail = "starts_anew", {"detail": changed["resume_problem"]}
    transitions.record_event(
        attempt.job,
        kind,
        now=now,
        attempt=attempt,
        detail={"attempt": attempt.number, **detail},
    )
    return changed


def _minute(moment: datetime) -> int:
    return int(moment.timestamp()) // 60
