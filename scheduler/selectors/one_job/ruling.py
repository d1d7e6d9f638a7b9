"""What retry rules say of the ends of a job's attempts; writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from accounts.errors import Forbidden
from accounts.models import User
from scheduler.models import Attempt, Job, Placement
from scheduler.selectors.jobs import check_visible, may_read_inside
from scheduler.selectors.one_job.tails import tails_of
from scheduler.spec.retrying.matching import (
    LINES,
    End,
    first_met,
    is_asked,
    is_free,
    rule_words,
    then_words,
)
from scheduler.spec.retrying.rules import RetryRule, read_rules
from scheduler.states import EndReason, FailureClass, end_sentence
from scheduler.triage.text import read_tail

# So many of the last attempts are looked at: each may want its log.
MOST_TRIED = 10


@dataclass(frozen=True, slots=True)
class Tried:
    """What rules would make of an attempt's end. `rule` counts from one, None: none meets it.

    `action`: retry, stop, or "" where rules have no say or none meets it; `words` say it.
    """

    attempt: int
    sentence: str
    rule: int | None
    action: str
    words: str


def rules_of(job: Job) -> tuple[RetryRule, ...]:
    """The job's own, in their order; none that cannot be read, as every attempt has to end."""
    try:
        return read_rules(job.retry_rules or ())
    except ValueError:
        return ()


def rules_in_words(job: Job) -> list[str]:
    """Each for people, in their order; for those who may read the spec."""
    return [rule_words(rule) for rule in rules_of(job)]


def end_of(
    placements: Sequence[Placement],
    reason: EndReason,
    failure: FailureClass,
    exit_code: int | None,
) -> End:
    """An attempt's end as rules see it; its log is read when a rule asks for it, once."""
    failed = [one for one in placements if one.end_reason == reason]
    culprit = min(failed, key=lambda one: (str(one.ended_at), one.rank), default=None)
    rank = culprit.rank if culprit else 0

    @cache
    def last_lines() -> list[str]:
        tails = tails_of(placements, rank)
        return [line.text for tail in tails for line in read_tail(tail)[-LINES:]]

    return End(reason, failure, exit_code, last_lines)


def try_rules(
    viewer: User, job: Job, rules: Sequence[RetryRule], most: int = MOST_TRIED
) -> list[Tried]:
    """What these rules would make of the last attempts that have ended, oldest first; raises
    Forbidden for whoever may not read the job's log."""
    check_visible(viewer, job)
    if not may_read_inside(viewer, job):
        raise Forbidden("Your role may see this job, but not its log, which rules may ask for.")
    ended = job.attempts.exclude(end_reason="").defer("code_patch")
    latest = ended.prefetch_related("placements").order_by("-number")[:most]
    return [_tried(attempt, rules) for attempt in reversed(latest)]


def _tried(attempt: Attempt, rules: Sequence[RetryRule]) -> Tried:
    reason = EndReason(attempt.end_reason)
    failure = FailureClass(attempt.failure or FailureClass.NONE)
    end = end_of(list(attempt.placements.all()), reason, failure, attempt.exit_code)
    met = first_met(rules, end)
    sentence = end_sentence(reason, {**attempt.end_facts, "rule": None})
    if met is None:
        why = "No rule meets it" if is_asked(reason) else "Rules have no say in this end"
        return Tried(attempt.number, sentence, None, "", f"{why}: what is usual follows.")
    name = f"Rule {met.number} ({met.why})"
    if met.rule.stops:
        words = f"{name}: not tried again."
    elif is_free(reason):
        words = f"{name}, but Trainyard tries it again for free: nothing of the rule is used."
    else:
        words = f"{name}: {then_words(met.rule)}."
    return Tried(attempt.number, sentence, met.number, "stop" if met.rule.stops else "retry", words)
