"""What a check looks at, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.engine.board import Board
from scheduler.engine.reservation import Head
from scheduler.engine.sharing.quota import Gate
from scheduler.engine.snapshot import Flags, Ints, Request, ints
from scheduler.states import WaitReason


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One class of equal requests, on the board as it is then.

    `rows`: the waiting jobs of the class (rows of `Waiting`) that no check has explained yet; empty
    while whole classes are ruled out before the admission. `heads`: for whom its pool keeps room.
    `next_free_at`: the minute by which the next devices of its pool come free, None if nobody
    knows. `class_row`: of `Classes.requests`. `gate`: what accounts may still start, None while
    whole classes are ruled out. `memo`: what several checks ask about it, worked out once.
    """

    board: Board
    request: Request
    class_row: int
    rows: Ints = field(default_factory=lambda: ints([]))
    heads: tuple[Head, ...] = ()
    next_free_at: int | None = None
    gate: Gate | None = None
    memo: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """Why a class waits. `facts` are plain JSON values for the sentence of the reason.

    `concerns`: which of the case's `rows`, None for all.
    """

    facts: Mapping[str, object]
    concerns: Flags | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the precedence: the reason, and the function that finds it or says None.

    Several findings concern different rows.

    `rules_out`: it holds whatever becomes free, and concerns whole classes; it is then asked
    before the admission, and such classes are not tried. Others are asked on the board as the
    admission left it. `by_account`: it looks at what an account has, not at the board; the rows of
    its case belong to one account and ask for equal GPUs, and may be of several classes.
    `by_queue`: it looks at the queue; all others find the same for classes that differ in theirs.

    What a check finds holds by itself, whatever those before it say, since a person is shown all
    that fail. `measure`: what is needed and what is there, in words, asked only for one job;
    without it that is left to the sentence. `passes`: the same where it passes and measures
    nothing. `is_moot`: it is not asked now, and so neither passes nor fails.
    """

    reason: WaitReason
    find: Callable[[Case], Finding | Sequence[Finding] | None]
    measure: Callable[[Case], tuple[str, str]] = lambda _case: ("", "")
    passes: tuple[str, str] = ("", "")
    is_moot: Callable[[Case], bool] = lambda _case: False
    rules_out: bool = False
    by_account: bool = False
    by_queue: bool = False
