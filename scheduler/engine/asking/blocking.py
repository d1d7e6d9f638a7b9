"""All that stands in a job's way, not only its top reason, and who holds what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from scheduler.engine.cycle import Decision
from scheduler.engine.explaining.case import Case, Check
from scheduler.engine.explaining.precedence import CHECKS
from scheduler.engine.explaining.verdicts import findings_of
from scheduler.engine.plan import Wait
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Ints, Request, ints
from scheduler.states import WaitReason, wait_sentence

# So many holders are named one by one, those that end first.
MOST_HOLDERS = 10


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of the precedence: what it needs and has in words; a sentence if it fails, and the
    account whose limit or budget it is."""

    reason: WaitReason
    is_ok: bool
    need: str
    have: str
    sentence: str
    account: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds GPUs which this one could use, until `until_s` at the latest; None: open."""

    job: int
    gpus: int
    nodes: int
    until_s: int | None


@dataclass(frozen=True, slots=True)
class Blocking:
    """`wait` is None for a job that starts in this very cycle. `holders` end first to last."""

    wait: Wait | None
    checks: tuple[CheckResult, ...]
    holders: tuple[Holder, ...]
    other_holders: int


def blocking_facts(decision: Decision, policy: Policy, job: int) -> Blocking | None:
    """What stands in the way of a waiting job; None if no such job waits in this snapshot.

    Each check is asked by itself, on the board as the admission left it, so that a job sees at
    once all that has to change. A job that others make room for has no checks: only that counts.
    """
    snapshot, waits = decision.board.snapshot, decision.plan.waits
    at = np.flatnonzero(waits.job == job)
    wait = waits[int(at[0])] if len(at) else None
    rows = np.flatnonzero(snapshot.waiting.id == job)
    if not len(rows):
        return Blocking(wait, (), (), 0) if wait else None
    row = int(rows[0])
    class_row = int(decision.classes.of_job[row])
    request = decision.classes.requests[class_row]
    gone_s = snapshot.now_s + float(snapshot.waiting.remaining_s[row]) + policy.backfill_slack_s
    heads = tuple(
        head
        for head in decision.heads.get(request.pool, ())
        if head.row != row and gone_s > head.start.start_s
    )
    case = Case(decision.board, request, class_row, ints([row]), heads, gate=decision.gate)
    asked = [check for check in CHECKS if not check.by_account or _has_account(decision, row)]
    checks = (
        tuple(_result(one, case, wait.facts) for one in asked if not one.is_moot(case))
        if wait
        else ()
    )
    holders, others = _holders(decision, request)
    return Blocking(wait, checks, holders, others)


def _has_account(decision: Decision, row: int) -> bool:
    return bool(decision.board.snapshot.waiting.account[row] != NONE) and not decision.gate.is_open


def _result(check: Check, case: Case, told: Mapping[str, object]) -> CheckResult:
    """`told`: what the job is told of its wait, as of how many are ahead."""
    concerning = [
        finding
        for finding in findings_of(check, case)
        if finding.concerns is None or bool(finding.concerns[0])
    ]
    measured = check.measure(case)
    if not concerning:
        return CheckResult(check.reason, True, *(measured if any(measured) else check.passes), "")
    facts = concerning[0].facts
    sentence = wait_sentence(check.reason, {"ahead": told.get("ahead", 0), **facts})
    account = str(facts.get("account", "")) if check.by_account else ""
    return CheckResult(check.reason, False, *measured, sentence, account)


def _holders(decision: Decision, request: Request) -> tuple[tuple[Holder, ...], int]:
    """Who holds devices of the pool that the request could use; named ones, and how many more."""
    board = decision.board
    snapshot = board.snapshot
    devices = snapshot.devices
    usable = board.may_serve(request) & board.in_pool[request.pool][devices.node]
    job_of, until_s = _job_of_device(decision)
    counted = np.flatnonzero(usable & (job_of != NONE))
    jobs, which = np.unique(job_of[counted], return_inverse=True)
    end_s = np.full(len(jobs), -np.inf)
    np.maximum.at(end_s, which, until_s[counted])
    shares = np.unique(np.stack([which, devices.node[counted]], axis=1), axis=0)[:, 0]
    columns = (jobs, np.bincount(which), np.bincount(shares), end_s)
    holders = [
        Holder(job, gpus, nodes, int(-(-until // 60) * 60) if isfinite(until) else None)
        for job, gpus, nodes, until in zip(*(row.tolist() for row in columns), strict=True)
    ]
    holders.sort(key=lambda one: (one.until_s is None, one.until_s, -one.gpus, one.job))
    return tuple(holders[:MOST_HOLDERS]), len(holders[MOST_HOLDERS:])


def _job_of_device(decision: Decision) -> tuple[Ints, np.ndarray]:
    """By device: the job that holds it, those of this cycle's starts included, and until when."""
    snapshot = decision.board.snapshot
    devices, held, waiting = snapshot.devices, snapshot.held, snapshot.waiting
    job_of = ints(np.append(held.job, NONE)[devices.holder])
    until_s = np.append(held.until_s, np.inf)[devices.holder]
    job_of[snapshot.slices.device] = held.job[snapshot.slices.holder]
    until_s[snapshot.slices.device] = held.until_s[snapshot.slices.holder]
    row_of = dict(zip(devices.id.tolist(), range(len(devices.id)), strict=True))
    remaining_s = dict(zip(waiting.id.tolist(), waiting.remaining_s.tolist(), strict=True))
    for start in decision.plan.starts:
        for placement in start.placements:
            rows = [row_of[device] for device in placement.devices]
            job_of[rows] = start.job
            until_s[rows] = snapshot.now_s + remaining_s.get(start.job, np.inf)
    return job_of, until_s
