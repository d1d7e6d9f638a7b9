"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plant:
    """What is broken, where, and what the database may no longer refuse (`sql`).

    `in_agent` and `in_guard`: the agent's process, and the bare one that forks supervisors.
    Faults that it does not need only keep jobs from coming, on a slow machine all of them.
    `shows`: the invariants that break, which are looked at all the time: with the first break it is
    over. So many accepted jobs and faults are `enough` to show it, however slow the machine is.
    `settle_s` is the patience with what never ends. `with_standby`: it takes two schedulers;
    `with_helpers`: what sends news and keeps house, and somebody who is told. `joins`: it takes
    arrays that wait for each other; `repeats`: schedules; `groups`: jobs of groups; `pools`: so
    many of them.
    """

    words: str
    on_server: Callable[[], None] | None = None
    in_agent: Callable[[], None] | None = None
    in_guard: Callable[[], None] | None = None
    sql: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ("short",)
    shows: tuple[str, ...] = ()
    enough: tuple[int, int] = (10, 0)
    settle_s: float = 20.0
    with_standby: bool = False
    with_helpers: bool = False
    joins: bool = False
    repeats: bool = False
    groups: bool = False
    pools: int = 1
