"""What people read of a state and of an end: its word, its sentence, and what work it cost."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scheduler.states.ends import END_RULES, PAUSES, EndReason
from scheduler.states.moves import LIVE_JOB_STATES, JobState

# Characters of the word that somebody gives who ends, holds or pauses a job.
MOST_REASON = 200
_WHO = re.compile(r"\{who\}[.:]")
_STOPS = (".", "!", "?", "…")
TIMES_OUT = frozenset(
    {EndReason.TIME_LIMIT, EndReason.FINISH_BY_REACHED, EndReason.MAX_COST_REACHED}
)
_ARRAY_NEVER = "Its dependency can never be met: it waited for {awaited}, and {found}."
_UNITS = {"d": "d", "h": "h", "m": "min", "s": "s"}


def end_sentence(reason: EndReason | str, facts: Mapping[str, object]) -> str:
    """What page, API and CLI print for an ended attempt: why, and what work it cost."""
    limit = str(facts.get("limit", ""))
    said = {**facts, "limit": _in_words(limit) or limit} if limit else facts
    words = END_RULES[EndReason(reason)].sentence
    if reason == EndReason.DEPENDENCY_NEVER and "set" in facts:
        words = _ARRAY_NEVER
    if reason == EndReason.BOOKING_ENDED and facts.get("because"):
        words = words.replace("is over.", "was ended early by {who}.")
    ruled = rule_sentence(facts)
    if reason == EndReason.TIME_LIMIT and facts.get("goes_on"):
        words = words.partition(" Clone")[0]
    sentence = fill(words, said)
    return " ".join(part for part in (sentence, ruled, loss_sentence(facts)) if part)


def rule_name(facts: Mapping[str, object]) -> str:
    """The job's own retry rule that decided: `rule 2 (exit code 75)`; empty for none."""
    rule = facts.get("rule")
    return f"rule {rule['number']} ({rule['why']})" if isinstance(rule, Mapping) else ""


def rule_sentence(facts: Mapping[str, object]) -> str:
    """What the job's own retry rule makes of an end; empty where none has a say."""
    rule = facts.get("rule")
    if not isinstance(rule, Mapping):
        return ""
    name = f"R{rule_name(facts)[1:]}"
    if rule["does"] == "retry":
        return f"{name} tries it again, {rule['try']} of {rule['max']}."
    if rule["does"] == "stop":
        return f"{name} does not let it be tried again."
    often = "once" if rule["max"] == 1 else f"{rule['max']} times"
    return f"{name} has tried it again {often}, as often as it may."


def loss_sentence(facts: Mapping[str, object]) -> str:
    """What was lost since the last confirmed checkpoint and where the job goes on, if it does.

    Empty where nothing is known: a program that ends for good may keep its work elsewhere.
    """
    if "lost" not in facts:
        return ""
    lost, step = _in_words(str(facts["lost"])), facts.get("checkpoint_step")
    if facts.get("goes_on"):
        where = "it starts anew" if step is None else f"it resumes from step {step}"
        if node := facts.get("checkpoint_on"):
            where = f"its last checkpoint, step {step}, lies on node {node}, so it starts anew"
        return f"{f'Lost {lost} of work' if lost else 'No work was lost'}; {where}."
    if step is None:
        return ""
    return f"The last checkpoint, step {step}, was taken {lost or 'right'} before the end."


def _in_words(spelled: str) -> str:
    """`3m10s`, as specs spell it, as people read it: `3 min 10 s`; empty for no time at all."""
    parts = re.findall(r"(\d+)([dhms])", spelled)
    return " ".join(f"{count} {_UNITS[unit]}" for count, unit in parts if int(count))


def shown_state(state: JobState | str, end_reason: str = "", *, unreachable: bool = False) -> str:
    """The word people see: the state, made more precise by its reason."""
    if unreachable and state in LIVE_JOB_STATES:
        return "unreachable"
    if state == JobState.FAILED and end_reason in TIMES_OUT:
        return "timed out"
    if state == JobState.QUEUED and end_reason == EndReason.PREEMPTED:
        return "preempted"
    if state == JobState.HELD and end_reason in PAUSES:
        return "paused"
    return str(state)


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def spoken_s(seconds: int) -> str:
    """Whole seconds as people read them: `30 s`, `4 min`."""
    return f"{seconds} s" if seconds < 120 or seconds % 60 else f"{seconds // 60} min"


def fill(sentence: str, facts: Mapping[str, object]) -> str:
    """The sentence with its facts; a slot without one shows "?". Who did it is followed by the word
    they gave (`because`): `Cancelled by Lena: it writes to the wrong bucket.`"""
    if because := str(facts.get("because") or ""):
        because = because if because.endswith(_STOPS) else f"{because}."
        sentence = _WHO.sub("{who}: {because}", sentence)
        facts = {**facts, "because": because}
    return sentence.format_map(_Gaps(facts))
