"""A row of the table of `matrix.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

PERSONAS = ("alice", "bob", "lead", "finance", "operator", "carol", "root")


@dataclass(frozen=True)
class Row:
    """`args` names things of `test_matrix.things`; `answers` has a status for each persona."""

    route: str
    answers: str
    method: str = "GET"
    args: tuple[str, ...] = ()
    data: dict[str, str] = field(default_factory=dict)

    @property
    def statuses(self) -> dict[str, int]:
        return dict(zip(PERSONAS, map(int, self.answers.split()), strict=True))

    def __str__(self) -> str:
        return f"{self.method} {self.route}"


def get(route: str, answers: str, *args: str, **data: str) -> Row:
    return Row(route, answers, "GET", args, data)


def post(route: str, answers: str, *args: str, **data: str) -> Row:
    return Row(route, answers, "POST", args, data)
