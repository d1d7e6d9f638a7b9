"""A document that is not yet a job: what of it holds, and what is wrong with the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.spec.parts import SESSION_APPS, with_other_pools
from scheduler.spec.problems import SpecInvalid, SpecProblem
from scheduler.spec.schema import JobSpec, parse_spec

# What a job must have and a draft, a template or a script may lack.
_STAND_INS = {"name": "job", "project": "a/b", "script": "true"}
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Partial:
    """`document`: the fields that hold, normalised as `JobSpec.document`; no other field is there.

    `refused`: the fields that do not, as they were written. `problems`: why.
    """

    document: dict[str, Any]
    refused: dict[str, Any]
    problems: tuple[SpecProblem, ...]


def read_partial(sent: Mapping[str, Any]) -> Partial:
    """Check each field of a document that may lack what a job must have."""
    left = _with_pools({str(name): value for name, value in sent.items() if value is not None})
    refused: dict[str, Any] = {}
    problems: list[SpecProblem] = []
    for _ in range(_ROUNDS):
        try:
            spec = parse_spec(completed(left))
        except SpecInvalid as error:
            named = {one.field.partition(".")[0] for one in error.problems} & left.keys()
            problems += [one for one in error.problems if one not in problems]
            # A problem of no field in particular concerns all of them.
            for name in named or set(left):
                refused[name] = left.pop(name)
        else:
            whole = spec.document()
            held = {name: whole[name] for name in left if name in JobSpec.model_fields}
            return Partial(held, refused, tuple(problems))
    return Partial({}, {**refused, **left}, tuple(problems))


def _with_pools(left: dict[str, Any]) -> dict[str, Any]:
    """What `pool` says of other pools as a field of its own; what cannot be read stays."""
    try:
        return with_other_pools(left)
    except SpecInvalid:
        return left


def completed(left: Mapping[str, Any]) -> dict[str, Any]:
    """A document with stand-ins for what a job must have and it lacks."""
    missing = dict(_STAND_INS)
    if left.get("command") or "script" in left or _brings_its_program(left.get("session")):
        del missing["script"]
    return {**missing, **left}


def _brings_its_program(session: object) -> bool:
    app = session.get("app") if isinstance(session, Mapping) else session
    return isinstance(app, str) and app.strip() in SESSION_APPS and app.strip() != "command"
