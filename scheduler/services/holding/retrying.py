"""What follows from an attempt's end: the job's own retry rules first, else what follows from its
reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.models import Attempt, Placement
from scheduler.selectors.one_job.ruling import end_of, rules_of
from scheduler.services.holding.recovering import usually_follows
from scheduler.spec.retrying.matching import first_met, is_free
from scheduler.states import EndReason, FailureClass


def what_follows(
    attempt: Attempt,
    placements: Sequence[Placement],
    reason: EndReason,
    failure: FailureClass,
    exit_code: int | None,
) -> tuple[str, dict[str, Any]]:
    """Who pays for another attempt ("free", "user", "rule", or "" for nobody), and what the end
    says of the rule that decided: `rule`, and the pause before the next try.

    What the platform retries for free stays so: a rule may only stop it. One whose maximum is used
    up ends the job; the rules after it are not asked.
    """
    if reason is EndReason.MAX_COST_REACHED:
        # No rule of its own spends more than it may cost.
        return "", {}
    rules = rules_of(attempt.job)
    met = rules and first_met(rules, end_of(placements, reason, failure, exit_code))
    if not met or (is_free(reason) and not met.rule.stops):
        return usually_follows(attempt.job, reason), {}
    said: dict[str, Any] = {"number": met.number, "why": met.why, "does": "stop"}
    if met.rule.stops:
        return "", {"rule": said}
    used = attempt.job.attempts.filter(
        number__lt=attempt.number, end_facts__rule__number=met.number, end_facts__rule__does="retry"
    ).count()
    said["max"] = met.rule.most
    if used >= met.rule.most:
        return "", {"rule": said | {"does": "spent"}}
    facts: dict[str, Any] = {"rule": said | {"does": "retry", "try": used + 1}}
    if wait_s := met.rule.wait_before(used):
        why = f"rule {met.number}: {met.why}"
        facts |= {"pause_s": wait_s, "pause_why": why, "pause_by": "rule"}
    return "rule", facts
