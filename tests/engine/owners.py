"""Accounts for drawn clusters.

    shared_by(snapshot, "org", "org/vision weight=2", "org/speech used=3600",
              owners={5: "vision", 6: "speech"}, limits=[limit("vision", guaranteed=4)])

A name is the last part of its path; parents come first. Jobs, waiting and running alike, belong
to the account in `owners`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.engine.plan import Plan
from scheduler.engine.snapshot import NONE, Accounts, Ints, Limits, Snapshot, floats, ints
from tests.engine.test_properties import with_starts


@dataclass(frozen=True)
class DrawnLimit:
    account: str
    guaranteed: int = 0
    borrow: int = NONE
    lend: int = NONE
    maximum: int = NONE
    pool: str = ""
    model: str = ""


limit = DrawnLimit


def shared_by(
    snapshot: Snapshot,
    *lines: str,
    owners: Mapping[int, str] | None = None,
    sharers: Mapping[int, str] | None = None,
    limits: Sequence[DrawnLimit] = (),
) -> Snapshot:
    """The snapshot with accounts; options are those of `Accounts` without their units."""
    paths = [line.split()[0] for line in lines]
    names = [path.split("/")[-1] for path in paths]
    options = [dict(word.split("=") for word in line.split()[1:]) for line in lines]

    def option(name: str, usual: float) -> list[float]:
        return [float(each.get(name, usual)) for each in options]

    parents = [path.split("/")[-2] if "/" in path else "" for path in paths]
    accounts = Accounts.of(
        parent=ints([names.index(up) if up else NONE for up in parents]),
        weight=floats(option("weight", 1)),
        used_gpu_s=floats(option("used", 0)),
        max_gpus_per_job=ints(option("gpus", NONE)),
        max_running=ints(option("running", NONE)),
        budget_gpu_s=floats(option("budget", np.inf)),
    )

    def rows(jobs: Ints, whose: Mapping[int, str] | None) -> Ints:
        found = [(whose or {}).get(number) for number in jobs.tolist()]
        return ints([names.index(name) if name else NONE for name in found])

    waiting, held = snapshot.waiting, snapshot.held
    return replace(
        snapshot,
        accounts=accounts,
        account_names=tuple(names),
        waiting=replace(
            waiting, account=rows(waiting.id, owners), sharer=rows(waiting.id, sharers)
        ),
        held=replace(held, account=rows(held.job, owners), sharer=rows(held.job, sharers)),
        limits=Limits.of(
            account=ints([names.index(one.account) for one in limits]),
            pool=ints([snapshot.pools.index(one.pool) if one.pool else NONE for one in limits]),
            model=ints([snapshot.models.index(one.model) if one.model else NONE for one in limits]),
            guaranteed=ints([one.guaranteed for one in limits]),
            borrow_limit=ints([one.borrow for one in limits]),
            lend_limit=ints([one.lend for one in limits]),
            maximum=ints([one.maximum for one in limits]),
        ),
    )


def after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster with the plan's starts carried out, and whose they are."""
    then = with_starts(snapshot, plan)
    waiting = snapshot.waiting
    account = dict(zip(waiting.id.tolist(), waiting.account.tolist(), strict=True))
    sharer = dict(zip(waiting.id.tolist(), waiting.sharer.tolist(), strict=True))
    new = then.held.job[len(snapshot.held.job) :].tolist()
    return replace(
        then,
        held=replace(
            then.held,
            account=np.concatenate([snapshot.held.account, ints([account[job] for job in new])]),
            sharer=np.concatenate([snapshot.held.sharer, ints([sharer[job] for job in new])]),
        ),
    )
