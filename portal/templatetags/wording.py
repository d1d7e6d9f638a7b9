"""Words for what the code calls by one name. Pure functions; `portal.py` makes them filters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from portal.templatetags.acts import ACTION_WORDS, ACTS
from portal.templatetags.measures import duration
from scheduler.engine.policy import ORDER_WORDS, PLACEMENT_WORDS
from scheduler.ledger.rating import ChargeKind
from scheduler.states import (
    END_RULES,
    ISOLATION_WORDS,
    MADE_TO_MOVE,
    PAUSES,
    EndReason,
    Outcome,
    amount_words,
    shown_state,
)

_RULES: Mapping[str, str] = {
    **{str(order): said for order, said in ORDER_WORDS.items()},
    **{str(rule): said for rule, said in PLACEMENT_WORDS.items()},
    # What is charged for: `run-borrowed` → `borrowed`, `idle-share` → `idle share`.
    **{str(kind): kind.removeprefix("run-").replace("-", " ") for kind in ChargeKind},
}
# By what kind of word it is: the same code may mean several things.
_KINDS: Mapping[str, Mapping[str, str]] = {
    "isolation": {str(code): said for code, said in ISOLATION_WORDS.items()},
    "outcome": {
        Outcome.APPROVE: "approved",
        Outcome.LESS: "approved in part",
        Outcome.DENY: "denied",
        Outcome.ASK: "asked back",
    },
    "step": {
        "lead": "for the team",
        "admin": "for the cluster",
        "finance": "for finance",
        "policy": "without a person",
    },
}
# What a change of the simulator begins with.
_CHANGED = {
    "policy": "who is next",
    "preempt": "may stop others",
    "placement": "where jobs go",
}
_OF_TEAMS = frozenset({"weight", "guaranteed", "maximum"})
_SAID_ENDS = {
    **{reason: str(reason) for reason in MADE_TO_MOVE},
    **dict.fromkeys(PAUSES, "paused"),
}
# Of these the state says all there is.
_PLAIN_ENDS = frozenset({EndReason.COMPLETED, EndReason.EXIT_CODE, EndReason.TIME_LIMIT})
_HAPPENS = {"lose": "is lost", "drain": "is drained", "restore": "is back"}
# The words of an action back to it.
_ACTIONS = {said.lower(): action for action, said in ACTION_WORDS.items()}


def words(name: object) -> str:
    """`soft_closed` → `soft closed`; orders and placements by what they do."""
    text = str(name)
    return _RULES.get(text) or text.replace("_", " ")


def action_words(action: str) -> str:
    """What was done, as the audit says it; an action without words here by its own:
    `team.note` → `team: note`."""
    return ACTION_WORDS.get(action) or action.replace(".", ": ").replace("_", " ")


def action_said(words: str) -> str:
    """The action again, from its words or from itself."""
    known = _ACTIONS.get(" ".join(words.lower().split()))
    return known or re.sub(r" +", "_", re.sub(r": *", ".", words))


def actions_like(words: str) -> tuple[str, ...]:
    """The actions whose words have all of these, `webhook`; none for a noun or an action itself."""
    if "." in words or words in ACTS:
        return ()
    asked = words.lower().replace("_", " ").split()
    found = ((action, said.lower()) for action, said in ACTION_WORDS.items() if asked)
    return tuple(action for action, said in found if all(word in said for word in asked))


def end_word(reason: EndReason) -> str:
    """The state that an attempt ended in, as that of a job: `succeeded`, `timed out`, `paused`."""
    return _SAID_ENDS.get(reason) or shown_state(END_RULES[reason].final, reason)


def end_words(code: str) -> str:
    """With the reason where that says more: `failed: out of memory`, `cancelled by user`."""
    if code not in END_RULES:
        return words(code)
    reason, text = EndReason(code), words(code)
    word = end_word(reason)
    if reason in _PLAIN_ENDS:
        return word
    return text if word in text else f"{word}: {text}"


def in_words(name: object, kind: str) -> str:
    """`{{ one.outcome|in_words:"outcome" }}`: a code as people say it; what is none stays."""
    return _KINDS[kind].get(str(name), str(name))


def asked_as(amount: int, kind: str) -> str:
    """`{{ asked.amount|asked_as:req.kind }}`: `+8`, or `8` GPUs of a booking."""
    return amount_words(kind, amount)


def or_over(left: object) -> str:
    """What is left of a budget, which is never less than nothing: `12.30 EUR`, `3.89 EUR over`."""
    text = str(left)
    return f"{text[1:]} over" if text[:1] in ("-", "−") else text


def policy_words(said: str) -> str:
    """A policy as a replay keeps it, in words: `a: fair, stops others; b: las, pack`."""
    pools = (part.rpartition(": ") for part in said.split("; "))
    return "; ".join(
        f"{pool}{sign}{', '.join(words(code) for code in codes.split(', '))}"
        for pool, sign, codes in pools
    )


def change_words(change: str) -> str:
    """A change of the simulator: `policy:gpu-a=las` → `who is next in gpu-a: least run first`."""
    name, sign, value = change.partition("=")
    if not sign:
        return _happening(change)
    kind, _, whose = name.partition(":")
    team, _, pool = whose.partition("@") if kind in _OF_TEAMS else ("", "", whose)
    of_team, in_pool = f" of {team}" if team else "", f" in {pool}" if pool else ""
    return f"{_CHANGED.get(kind, kind)}{of_team}{in_pool}: {words(value)}"


def _happening(text: str) -> str:
    """`lose:a/3@3600` → `node 3 of a is lost after 1 h`; what is none stays as it is."""
    what, _, rest = text.partition(":")
    place, _, at_s = rest.rpartition("@")
    pool, _, node = place.rpartition("/")
    try:
        when = duration(float(at_s))
    except ValueError:
        return text
    of_pool = f" of {pool}" if pool else ""
    return f"node {node}{of_pool} {_HAPPENS.get(what, what)} after {when}"
