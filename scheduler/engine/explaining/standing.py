"""Where a job stood when it was started, kept so that it can be compared with others later."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.explaining.verdicts import rule_out
from scheduler.engine.ordering import is_overdue, order_waiting, orders_of
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Order, Policy
from scheduler.engine.sharing.fairshare import Shares
from scheduler.engine.sharing.tree import sharers_of
from scheduler.engine.snapshot import Classes, Flags, Ints, Snapshot, classes_of, flags, ints
from scheduler.engine.worth import gpus_of, lengths_of
from scheduler.states import rough_span


@dataclass(frozen=True, slots=True)
class Standing:
    """The factors of the order, highest first, and what else the moment was; plain JSON values.

    `is_overdue`: it had waited longer than its pool lets anybody wait. `share`: the scores of its
    account and those above it, from the top, as that cycle began; None where no share counts.
    `length`: what the policy `order` sorts by, the least first. `place` counts from 1 by tier and
    `order` among the jobs of its pool that could start some day, `passed` those before it that were
    left waiting.
    """

    job: int
    at_s: float
    pool: str
    tier: int
    is_overdue: bool
    share: tuple[float, ...] | None
    order: str
    length: float
    queued_at_s: float
    gpus: int
    nodes: int
    place: int
    passed: int

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> Self | None:
        """From what was kept; None if it was kept by a version that knew less."""
        names = [one.name for one in fields(cls)]
        if not set(names) <= set(row):
            return None
        values = {name: row[name] for name in names}
        values["share"] = None if values["share"] is None else tuple(values["share"])
        return cls(**values)


def standings(
    snapshot: Snapshot,
    classes: Classes,
    policy: Policy,
    order: Ints,
    is_started: Flags,
    ruled_out: Container[int],
) -> dict[int, Standing]:
    """By job id, of the started places of `order` (waiting rows)."""
    if not is_started.any():
        return {}
    waiting = snapshot.waiting
    may_start = np.array([c not in ruled_out for c in range(len(classes.requests))], dtype=bool)
    counted = may_start[classes.of_job[order]]
    pool = waiting.pool[order]
    place, passed = _running_count(pool, counted), _running_count(pool, counted & ~is_started)
    orders = orders_of(snapshot, policy)
    length, gpus = lengths_of(waiting, orders), gpus_of(waiting)
    has_shares = Order.FAIR in orders and len(snapshot.accounts) > 0
    shares = Shares(snapshot, policy.half_life_s) if has_shares else None
    at = np.flatnonzero(is_started)
    rows = order[at]
    columns = {
        "job": waiting.id[rows],
        "tier": waiting.tier[rows],
        "is_overdue": is_overdue(snapshot)[rows],
        "length": np.nan_to_num(length[rows], posinf=0.0),
        "queued_at_s": waiting.queued_at_s[rows],
        "gpus": gpus[rows],
        "nodes": waiting.nodes[rows] + (waiting.part_gpus[rows] > 0),
        "place": place[at],
        "passed": passed[at],
    }
    sharers, pools = sharers_of(waiting)[rows].tolist(), waiting.pool[rows].tolist()
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    found = (
        Standing(
            **dict(zip(columns, facts, strict=True)),
            at_s=snapshot.now_s,
            pool=snapshot.pools[row],
            share=shares.scores(sharer) if shares and orders[row] is Order.FAIR else None,
            order=str(orders[row]),
        )
        for facts, sharer, row in zip(values, sharers, pools, strict=True)
    )
    return {standing.job: standing for standing in found}


def standing_now(snapshot: Snapshot, policy: Policy, job: int) -> Standing | None:
    """Where a waiting job stands in this snapshot; None if it does not wait there.

    `passed` counts all before it, since nobody of them has started.
    """
    rows = np.flatnonzero(snapshot.waiting.id == job)
    if not len(rows):
        return None
    classes, order = classes_of(snapshot.waiting), order_waiting(snapshot, policy)
    ruled_out = rule_out(Board(snapshot), classes)
    is_it = flags(order == rows[0])
    return standings(snapshot, classes, policy, order, is_it, ruled_out)[job]


def line_now(snapshot: Snapshot, policy: Policy, plan: Plan, pool: int) -> list[Standing]:
    """Who waits for a pool (row), in the order in which `plan`, made of both, considers them.

    First who starts in it. `place` counts all of them, also who can never start; a share is that
    before any of them starts.
    """
    waiting = snapshot.waiting
    row_of = {job: row for row, job in enumerate(waiting.id.tolist())}
    jobs = [*(start.job for start in plan.starts), *plan.waits.job.tolist()]
    order = ints([row for job in dict.fromkeys(jobs) if (row := row_of.get(job)) is not None])
    order = ints(order[waiting.pool[order] == pool])
    is_counted = flags(np.ones(len(order)))
    found = standings(snapshot, classes_of(waiting), policy, order, is_counted, ())
    return list(found.values())


def _running_count(pool: Ints, counted: Flags) -> Ints:
    """For each place, how many counted ones of its pool stand up to it, itself included."""
    count: Ints = np.zeros(len(pool), dtype=np.int64)
    for number in np.unique(pool):
        rows = np.flatnonzero(pool == number)
        count[rows] = np.cumsum(counted[rows])
    return ints(count)


def why_before(
    first: Standing, second: Standing, *, common_levels: int = 1, second_waits: bool = False
) -> tuple[str, str]:
    """Why `first` was started before `second`: a code, and a sentence that says "it" of the first.

    `common_levels`: on so many levels from the top both are of one account, whose share was the
    same for both at any moment. Otherwise shares are compared as each was noted: at a start, or
    now for a `second` that waits.

    The factors are compared as the order compares them; the first that differs decides. If it
    speaks for `second`, then `first` passed it because it fitted and the other did not.
    """
    if first.pool != second.pool:
        return "pool", f"It waited for pool {first.pool}, this job for {second.pool}."
    for code, ours, theirs, words in _factors(first, second, common_levels, second_waits):
        if ours is None or theirs is None:
            return "unknown", "The pool starts by fair share, and the share of one is not known."
        if ours != theirs:
            if ours < theirs:
                return code, words
            break
    else:
        return "number", "Both were alike; it has the lower number."
    return "fitted", (
        f"It stood behind this job, but what it needs ({_need_words(first)}) was free, and what "
        f"this job needs ({_need_words(second)}) was not."
    )


def _factors(
    first: Standing, second: Standing, common_levels: int, second_waits: bool
) -> list[tuple[str, Any, Any, str]]:
    """Code, the two values of which the lower goes first, and what to say if the first has it."""
    factors: list[tuple[str, Any, Any, str]] = [
        ("tier", -first.tier, -second.tier, "It is of a higher tier."),
        (
            "overdue",
            not first.is_overdue,
            not second.is_overdue,
            "It had waited longer than its pool lets anybody wait.",
        ),
    ]
    if first.order == Order.FAIR and not first.is_overdue:
        factors.append(_share_factor(first, second, common_levels, second_waits))
    if first.order == second.order and not (first.is_overdue and second.is_overdue):
        words = "It has less work ahead of it, and the pool starts the shortest first."
        if first.order == Order.LAS:
            words = "It has used fewer GPUs so far, and the pool starts such jobs first."
        factors.append(("length", first.length, second.length, words))
    waited_s = second.queued_at_s - first.queued_at_s
    factors.append(
        (
            "age",
            first.queued_at_s,
            second.queued_at_s,
            f"It was submitted {rough_span(abs(waited_s))} earlier.",
        )
    )
    return factors


def _share_factor(
    first: Standing, second: Standing, common_levels: int, second_waits: bool
) -> tuple[str, Any, Any, str]:
    """The shares of the accounts that differ, and the first of them that do in words."""
    if first.share is None or second.share is None:
        return "share", first.share, second.share, ""
    ours, theirs = first.share[common_levels:], second.share[common_levels:]
    differing = [
        at for at, pair in enumerate(zip(ours, theirs, strict=False)) if len(set(pair)) > 1
    ]
    words = "Its account is further up."
    if differing:
        at = differing[0]
        level = at + common_levels
        its, this = _level_word(level, first.share), _level_word(level, second.share)
        when = "has now" if second_waits else "had at its own start"
        words = (
            f"By weight, and with what it used lately, its {its} had {_part(ours[at])} of the "
            f"cluster when it started; this job's {this} {when} {_part(theirs[at])}."
        )
    return "share", ours, theirs, words


def _level_word(level: int, shares: Sequence[float]) -> str:
    """Whose share that is: between organisation and owner stand teams, one below the other."""
    return "organisation" if not level else "owner" if level == len(shares) - 1 else "team"


def _part(score: float) -> str:
    """A score as a part, with as many digits as tell small ones apart."""
    return f"{100 * score:.3g} %"


def _need_words(standing: Standing) -> str:
    gpus = f"{standing.gpus} GPU{'' if standing.gpus == 1 else 's'}"
    if standing.gpus == 0:
        gpus = "CPUs and memory"
    return f"{gpus} on {standing.nodes} nodes" if standing.nodes > 1 else gpus
