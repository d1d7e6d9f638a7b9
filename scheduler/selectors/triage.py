"""What a failed attempt's triage says, for a viewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts.models import User
from scheduler.models import Attempt, Job
from scheduler.selectors.jobs import may_read_inside
from scheduler.spec.retrying.matching import is_asked
from scheduler.states import (
    END_RULES,
    FAILURE_WORDS,
    INFRASTRUCTURE,
    EndReason,
    FailureClass,
    rule_name,
    span_words,
)
from scheduler.triage import advice_of


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why an attempt failed. `evidence` is empty for those who may not read the log.

    `title` names the class, `whose` says who has to mend it; `then` is who pays for another
    attempt: "free", "user" (one of the job's own retries), "rule" (a retry rule of its own), or ""
    for none, and `retry` says it. `rule` is the retry rule that decided: its `number` from one,
    `why` it was met, what it `does` (retry, stop, or spent: its maximum was used up), `try`, `max`.
    `is_confirmed`: the node says so, not only the program's output.
    """

    attempt: int
    failure: str
    title: str
    whose: str
    signature: str
    advice: str
    is_confirmed: bool
    evidence: tuple[dict[str, Any], ...]
    then: str
    retry: str
    rule: dict[str, Any] | None


def diagnosis_of(viewer: User, job: Job, attempt: Attempt) -> Diagnosis | None:
    """The triage of one attempt; None when it did not fail or ended before there was any."""
    if not attempt.failure or attempt.failure == FailureClass.NONE:
        return None
    failure, found = FailureClass(attempt.failure), attempt.triage
    whose = FAILURE_WORDS[failure][1]
    if _is_guess(attempt):
        whose = f"not decided; the output points to {whose}, but no node reported it"
    return Diagnosis(
        attempt=attempt.number,
        failure=str(failure),
        title=title_of(attempt),
        whose=whose,
        signature=str(found.get("signature", "")),
        advice=advice_of(str(found.get("signature", ""))),
        is_confirmed=bool(found.get("is_confirmed")),
        evidence=tuple(found.get("evidence", ())) if may_read_inside(viewer, job) else (),
        then=str(found.get("then", "")),
        retry=_retry(job, attempt),
        rule=attempt.end_facts.get("rule"),
    )


def title_of(attempt: Attempt) -> str:
    """The class of its end in words; empty when it did not fail or was not looked at."""
    if not attempt.failure or attempt.failure == FailureClass.NONE:
        return ""
    title = FAILURE_WORDS[FailureClass(attempt.failure)][0]
    return f"looks like a {title}" if _is_guess(attempt) else title


def _is_guess(attempt: Attempt) -> bool:
    """Whether the output alone blames the infrastructure."""
    return attempt.failure in INFRASTRUCTURE and not attempt.triage.get("is_confirmed")


def latest_diagnosis(viewer: User, job: Job) -> Diagnosis | None:
    """Of the last attempt that has ended, if that one failed."""
    # A patch may be large, and nothing here asks for it.
    tried = job.attempts.exclude(end_reason="").defer("code_patch")
    ended = tried.order_by("-number").first()
    return diagnosis_of(viewer, job, ended) if ended else None


def _retry(job: Job, attempt: Attempt) -> str:
    """Whether it is tried again, at whose cost, and why."""
    rule = END_RULES[EndReason(attempt.end_reason)]
    then = attempt.triage.get("then", "")
    charged = "Its time is charged." if rule.billable else "Its time is not charged."
    pause_s = attempt.end_facts.get("pause_s")
    after = f" after a pause of {span_words(pause_s)}" if pause_s else ""
    if own := rule_name(attempt.end_facts):
        return f"{_by_rule(own, attempt.end_facts['rule'], after)} {charged}"
    if then == "free":
        return f"Tried again by Trainyard{after}; none of the job's own retries is used. {charged}"
    why = " It counts as the program's own end." if _is_guess(attempt) else ""
    if job.retry_rules and is_asked(EndReason(attempt.end_reason)):
        why += " No retry rule of the job meets it."
    if then == "user":
        return f"Tried again{after} with one of the job's own retries. {charged}{why}"
    if rule.uses_user_retry:
        left = "No retry was asked for" if not job.retries else "The job's own retries are used up"
        return f"Not tried again: {left[0].lower()}{left[1:]}. {charged}{why}"
    if rule.retry_free:
        return f"Not tried again: it has failed this way too often. {charged}"
    return f"Not tried again: it would end the same way. {charged}{why}"


def _by_rule(name: str, rule: dict[str, Any], after: str) -> str:
    """What a retry rule of the job's own decided."""
    if rule["does"] == "retry":
        return f"Tried again{after} by {name}, {rule['try']} of {rule['max']}."
    if rule["does"] == "stop":
        return f"Not tried again: {name} says so."
    return f"Not tried again: {name} is used up, {rule['max']} of {rule['max']}."
