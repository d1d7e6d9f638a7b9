"""Labelled failures from text files: one head line a case, then the ends of its logs.

`=== name | class | reason | exit code | ended otherwise (others) | detail of the agent`, then log
lines; `@rank N` begins another rank's log. `-` stands for nothing. The file's last line end is
not part of a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduler.states import EndReason, FailureClass
from scheduler.triage import Failure, LogTail

FOLDER = Path(__file__).parent / "fixtures"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    expected: FailureClass
    failure: Failure


def load(name: str) -> list[Case]:
    """All cases of `fixtures/<name>.txt`."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    return [_case(part) for part in text.split("=== ")[1:]]


def _case(part: str) -> Case:
    head, _, body = part.partition("\n")
    name, expected, reason, code, others, detail = (word.strip() for word in head.split("|"))
    tails: dict[int, list[str]] = {0: []}
    rank = 0
    for line in body.splitlines():
        if line.startswith("@rank "):
            rank = int(line.removeprefix("@rank "))
            tails.setdefault(rank, [])
        else:
            tails[rank].append(line)
    failure = Failure(
        EndReason(reason),
        None if code == "-" else int(code),
        "" if detail == "-" else detail,
        0,
        () if others == "-" else tuple(EndReason(word) for word in others.split()),
        tuple(
            LogTail(number, "".join(line + "\n" for line in lines).encode())
            for number, lines in tails.items()
        ),
    )
    return Case(name, FailureClass(expected), failure)
