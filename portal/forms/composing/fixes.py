"""One change to a job as an address or a button names it, `nodes:2` or `alone:`, put into the
composer's fields. The kinds are those of the engine's options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.spec.parts import MAX_NODES
from scheduler.spec.price import price
from scheduler.spec.schema import MAX_GPUS_PER_NODE
from scheduler.spec.units import format_duration, parse_duration
from scheduler.spec.values import git_ref
from scheduler.states import Tier

# By kind: the field that takes the value, what is asked for no longer beside it, and the words.
VALUED: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "limit": ("time_limit", (), "a time limit of {new} instead of {old}"),
    "gpus": ("gpus_per_node", (), "GPUs per node: {new} instead of {old}"),
    "nodes": ("nodes", ("node_sizes",), "nodes: {new} instead of {old}"),
    "model": (
        "gpu_model",
        ("gpu_models", "fallback_after"),
        "GPU model {new} instead of {old}",
    ),
    "pool": ("pool", (), "pool {new} instead of {old}"),
    "price": ("max_cost", (), "a highest price of {new} instead of {old}"),
    "tier": ("tier", (), "tier {new} instead of {old}"),
    "ref": ("git_ref", (), "commit {new} instead of {old}"),
}
PLAIN: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "place": ({"topology_mode": "preferred"}, "its nodes close together only if it costs no time"),
    "alone": ({"exclusive": False}, "others on its nodes"),
    "labels": ({"constraints": "", "exclude_nodes": ""}, "no wishes for certain nodes"),
}
MOST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Fixed:
    """The fields with what was named; `words` say what that is, `problems` what was not known.
    `mends`: it is more than the code that the job ran, so that a job that waits is to give way."""

    fields: dict[str, Any]
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    mends: bool = False


def with_fixes(
    fields: Mapping[str, Any],
    named: Collection[str],
    *,
    pools: Collection[str],
    models: Collection[str],
    locked: Collection[str] = (),
) -> Fixed:
    """Each is taken whole or refused by name; a `locked` field stays as its template has it."""
    changed, words, problems, mends = dict(fields), [], [], False
    for text in named:
        kind, _, value = text.partition(":")
        try:
            change = _read(kind, value.strip(), changed, pools, models)
        except ValueError as wrong:
            problems.append(f"fix: {text[:MOST_SHOWN]} is left out: {wrong}.")
            continue
        if held := sorted(change.keys() & set(locked)):
            problems.append(f"fix: {text[:MOST_SHOWN]} is left out: the template locks {held[0]}.")
            continue
        words.append(_words(kind, change, changed))
        changed |= change
        mends |= kind != "ref"
    return Fixed(changed, tuple(words), tuple(problems), mends)


def _read(
    kind: str,
    value: str,
    fields: Mapping[str, Any],
    pools: Collection[str],
    models: Collection[str],
) -> dict[str, Any]:
    """The fields that a fix sets; raises ValueError."""
    if kind in PLAIN and not value:
        return dict(PLAIN[kind][0])
    if kind not in VALUED:
        raise ValueError(f"write one of {', '.join(VALUED)} with a value, or {', '.join(PLAIN)}")
    field, dropped, _ = VALUED[kind]
    change: dict[str, Any] = {field: value, **dict.fromkeys(dropped, "")}
    if kind in ("gpus", "nodes"):
        most = MAX_NODES if kind == "nodes" else MAX_GPUS_PER_NODE
        if not (value.isascii() and value.isdecimal() and 0 < int(value[:9]) <= most):
            raise ValueError(f"{kind} is a whole number from 1 to {most}")
    elif kind == "limit":
        seconds = parse_duration(value[:MOST_SHOWN])
        change[field] = format_duration(seconds)
        # It cannot be kept from being stopped for longer than it runs.
        if _seconds(fields.get("min_runtime")) > seconds:
            change["min_runtime"] = change[field]
    elif kind == "price":
        price(value)
    elif kind == "ref":
        if not (value and fields.get("git_url")):
            raise ValueError("ref is a branch, tag or commit of code that git fetches")
        git_ref(value)
    elif kind == "tier" and value.upper() not in Tier.__members__:
        raise ValueError(f"tier is one of {', '.join(tier.name.lower() for tier in Tier)}")
    elif kind == "pool" and value not in pools:
        raise ValueError("there is no such pool")
    elif kind == "model" and value and value not in models:
        raise ValueError("no pool has such GPUs")
    return change


def _seconds(text: Any) -> int:
    try:
        return parse_duration(str(text or "0"))
    except ValueError:
        return 0


def _words(kind: str, change: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    if kind in PLAIN:
        return PLAIN[kind][1]
    field, dropped, words = VALUED[kind]
    was = [fields.get(field), *(fields.get(name) for name in dropped)]
    nothing = "none" if kind == "price" else "any"
    old = next((str(one) for one in was if one not in (None, "")), nothing)
    return words.format(new=change[field] or "any", old=old[:MOST_SHOWN])
