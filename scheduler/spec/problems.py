"""What is wrong with a spec, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def given(value: object) -> str:
    """A value as a refusal names it, such as `'16 gigs'`; no more of it than that."""
    try:
        return repr(value[:40]) if isinstance(value, str) else repr(value)[:40]
    except ValueError:
        # Python writes no number of thousands of digits.
        return "so large a number"


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """`field` is the path in the document (`stop.grace`), `message` names cause and remedy.

    `code` is `invalid`, `unknown_field`, or `forbidden_field` for what only the server writes.
    """

    field: str
    message: str
    code: str = "invalid"


class SpecInvalid(ValueError):
    """A spec that cannot be accepted; carries every problem found, not just the first."""

    def __init__(self, problems: Sequence[SpecProblem]) -> None:
        self.problems = tuple(problems)
        self.has_alien_fields = any(problem.code != "invalid" for problem in self.problems)
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in self.problems))
