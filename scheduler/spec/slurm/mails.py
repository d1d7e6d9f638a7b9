"""What sbatch says of mails: of which events a job tells, and whom."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from scheduler.states import Wish

_TYPES = {
    "BEGIN": Wish.START,
    "END": Wish.END,
    "FAIL": Wish.FAIL,
    "INVALID_DEPEND": Wish.FAIL,
    "TIME_LIMIT": Wish.FAIL,
    "REQUEUE": Wish.RETRY,
    "TIME_LIMIT_80": Wish.WARN,
    "TIME_LIMIT_90": Wish.WARN,
    "ARRAY_TASKS": Wish.ARRAY,
}
_ALL = (Wish.START, Wish.END, Wish.FAIL, Wish.RETRY)
# Nothing here is like them; the others of their line are taken.
_WITHOUT_EQUAL = ("STAGE_OUT", "TIME_LIMIT_50")


def take_types(document: dict[str, Any], value: str) -> str:
    """`--mail-type` as the job's `notify`; returns what differs. Raises ValueError for no type."""
    given = [one.strip().upper() for one in value.split(",") if one.strip()]
    if given == ["NONE"]:
        document["notify"] = [str(Wish.NONE)]
        return ""
    known = {*_TYPES, *_WITHOUT_EQUAL, "ALL"}
    if not given or (strange := [one for one in given if one not in known]):
        named = strange[0][:40] if given else "nothing"
        raise ValueError(f"{named} is no event here; choose from notify: {', '.join(Wish)}")
    asked = {_TYPES[one] for one in given if one in _TYPES} | set(_ALL if "ALL" in given else ())
    if asked <= {Wish.ARRAY}:
        raise ValueError(f"{value} alone tells of nothing here; say notify: {', '.join(Wish)}")
    document["notify"] = [str(wish) for wish in Wish if wish in asked]
    left = [one for one in given if one in _WITHOUT_EQUAL]
    words = f"nothing here is like {', '.join(left)}: left out; " if left else ""
    if any(one in given for one in ("TIME_LIMIT", "INVALID_DEPEND")):
        words += "what ends at its limit or can never start is told as failed; "
    if Wish.WARN in asked:
        words += "warned at 80 and 90 % both; "
    return words.removesuffix("; ")


def take_address(own: Collection[str], value: str) -> str:
    """`--mail-user`: who submits is told, at the address of their account; any other is not."""
    wanted = value.strip().casefold()
    if wanted in {one.casefold() for one in own}:
        return ""
    return (
        "mails go to the job's owner alone, at the address of their account (Settings, Profile); "
        "a teammate's or any other address gets none: a teammate watches the job (its page, or "
        "trainyard watch)"
    )
