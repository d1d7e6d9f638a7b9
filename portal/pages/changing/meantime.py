"""What a person changed in a form, and what others changed in the thing since it was opened.

A form carries what its fields showed as it was opened (`was_<field>`). Fields that were left as
they were are not asked for, so that a newer value of somebody else stays; two who changed the same
field are told of each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from accounts.errors import Conflict

WAS = "was_"


def was_names(fields: Collection[str]) -> tuple[str, ...]:
    """The parameters with what these fields showed."""
    return tuple(f"{WAS}{name}" for name in fields)


def asked_for(
    sent: Mapping[str, str], fields: Collection[str], *, longest: int
) -> tuple[dict[str, str], dict[str, str]]:
    """By field what was sent, each at most so long, and what the form showed as it was opened; a
    field that shows the same is not asked for. A link that says no more than it asks for shows
    nothing."""
    asked = {name: sent[name].strip()[:longest] for name in fields if name in sent}
    shown = {
        name: sent[f"{WAS}{name}"].strip()[:longest] for name in asked if f"{WAS}{name}" in sent
    }
    return {name: text for name, text in asked.items() if shown.get(name) != text}, shown


def refuse_changed_since(
    asked: Mapping[str, str], shown: Mapping[str, str], now: Mapping[str, str]
) -> None:
    """Raises Conflict, which names the field and both values, where somebody has set a field to
    something else since the form showed it; `now`: what fields show by now."""
    for name in asked.keys() & shown.keys() & now.keys():
        if shown[name] == now[name] or asked[name] == now[name]:
            continue
        raise Conflict(
            f"{name}: somebody has changed it from {_quoted(shown[name])} to {_quoted(now[name])} "
            f"since you opened this page; you ask for {_quoted(asked[name])}. Look again, and send "
            "it once more if it is still right.",
            field=name,
            code="changed_since",
        )


def _quoted(text: str) -> str:
    return text or "nothing"
