"""The sentence that says how an attempt ended, and what work that cost."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scheduler.states.ends import END_RULES, EndReason
from scheduler.states.sentences import fill

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
    sentence = fill(words, said)
    return " ".join(part for part in (sentence, loss_sentence(facts)) if part)


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
