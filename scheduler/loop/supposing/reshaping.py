"""The cluster as it is, and as it would be if a waiting job asked for something else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from scheduler.conf import load_conf
from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Snapshot
from scheduler.loop.loading import lent_rows, load_snapshot
from scheduler.loop.loading.together import read_together
from scheduler.loop.memories import Memories
from scheduler.models import Job
from scheduler.money import from_steps
from scheduler.services.sharing.keeping.pledging import Worst
from scheduler.services.sharing.policies import policy_in_force

# No job has it: numbers count from one.
_NOBODY = 2**53
# Of the job itself, whatever it asks for: since when it waits, and what it has run.
_OWN = frozenset("id queued_at_s remaining_s attained_s learnt_s avoid_node most_cost".split())


def asked_otherwise(
    job: Job, columns: Mapping[str, Any], *, now: datetime, tier: int = 0
) -> tuple[Snapshot, Snapshot, Policy]:
    """Before and after: the job with these columns in its old place, and by which policy to decide.
    `tier`: that it may get.

    It is loaded like every other that waits, as a row that nobody wrote.
    """
    draft = as_if(job, columns, _NOBODY)
    with read_together(now), lent_rows() as kept:
        policy = policy_in_force()
        loaded = load_snapshot(
            now, moves=policy.moves, half_life_s=policy.memory_s, also=[draft], kept=kept
        )
        loaded = loaded.to_decide(policy, now=now, tier=tier)
        both = Memories().add_to(loaded.snapshot, policy, now=now)
    waiting = both.waiting
    before = replace(both, waiting=waiting.take(waiting.id != _NOBODY))
    old, new = np.flatnonzero(waiting.id == job.pk), np.flatnonzero(waiting.id == _NOBODY)
    if not len(old):
        return before, before, policy
    columns_now = waiting.columns()
    changed: dict[str, Any] = {name: one.copy() for name, one in columns_now if name not in _OWN}
    for column in changed.values():
        column[old] = column[new]
    if "pool" in columns:
        # A node of the old pool to stay away from means nothing in the new one.
        changed["avoid_node"] = np.where(waiting.id == job.pk, NONE, waiting.avoid_node)
    after = replace(waiting, **changed)
    return before, replace(both, waiting=after.take(waiting.id != _NOBODY)), policy


def as_if(job: Job, columns: Mapping[str, Any], pk: int) -> Job:
    """The job with these columns, under another number; nobody writes it."""
    draft = Job(**{one.attname: getattr(job, one.attname) for one in Job._meta.concrete_fields})
    draft.project = job.project
    for name, value in {**columns, "pk": pk}.items():
        setattr(draft, name, value)
    return draft


def most_costs(job: Job, columns: Mapping[str, Any], *, now: datetime) -> dict[str, str | None]:
    """What it may cost at most as it is, if its GPUs stay the same ones, and with these columns;
    None where no price is known."""
    worst, draft = Worst(now), as_if(job, columns, _NOBODY)
    currency = load_conf().currency

    def words(one: Job) -> str | None:
        # The draft has cost what the job has.
        steps = worst.kept_of(as_if(one, {}, job.pk))
        return None if steps is None else f"{from_steps(steps):,.2f} {currency}"

    is_priced_alike = not columns.keys() & {"pool", "gpu_model", "gpu_models"}
    return {"was": words(job) if is_priced_alike else None, "then": words(draft)}
