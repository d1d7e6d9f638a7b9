"""What is wrong with a spec, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """`field` is the path in the document (`stop.grace`), `message` names cause and remedy."""

    field: str
    message: str


class SpecInvalid(ValueError):
    """A spec that cannot be accepted; carries every problem found, not just the first."""

    def __init__(self, problems: Sequence[SpecProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in self.problems))
