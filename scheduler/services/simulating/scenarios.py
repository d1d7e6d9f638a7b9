"""Scenarios: asked for by operators, replayed by a task, kept until somebody forgets them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from accounts.selectors.rates import rates_over
from accounts.services.audit import record
from scheduler import events
from scheduler.conf import load_conf
from scheduler.engine.policy import Order, PlacementRule, Policy
from scheduler.models import Pool, PoolRule, Scenario
from scheduler.selectors.traces import Window, pools_with_gpus, window_of
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.requesting.foreseeing.replaying import (
    MOST_JOBS,
    models_of,
    replayable_policy,
    teams_today,
)
from scheduler.services.rows import claims
from scheduler.services.sharing.policies import PLACEMENTS, policy_of_pool, set_pool_policy
from scheduler.services.sharing.rights import require_operator
from scheduler.simulator.changes import ChangeInvalid, changed
from scheduler.simulator.traces.writing import trace_lines, trace_of
from scheduler.simulator.whatif import Run, Setting, impact_of

logger = logging.getLogger(__name__)

TASK = "scheduler.tasks.simulate_requests"
MOST_HOURS = 24 * 30
MOST_CHANGES = 20
# Of an operator's scenarios so many may wait at once.
MOST_WAITING = 10


@dataclass(frozen=True, slots=True)
class _Base:
    """What ran, and the rules as they are."""

    window: Window
    setting: Setting
    prices: tuple[float | None, ...]
    notes: tuple[str, ...]


@transaction.atomic
def ask_scenario(
    *,
    actor: User,
    pool: Pool | None,
    hours: int,
    changes: Sequence[str],
    name: str = "",
    now: datetime | None = None,
) -> Scenario:
    """Have the last hours of a pool, or of all pools together, replayed with these changes.

    Raises Invalid, which names the change.
    """
    require_operator(actor)
    now = now or timezone.now()
    if not 1 <= hours <= MOST_HOURS:
        raise Invalid(f"Choose 1 to {MOST_HOURS} hours.", field="hours")
    if not changes:
        raise Invalid("Change something: it would be replayed as it was.", field="changes")
    if len(changes) > MOST_CHANGES:
        raise Invalid(f"Make at most {MOST_CHANGES} changes at once.", field="changes")
    if Scenario.objects.filter(progress__in=("waiting", "running")).count() >= MOST_WAITING:
        raise Conflict(f"{MOST_WAITING} scenarios wait already; wait for their answers.")
    base = _base_of(pool, hours, now)
    try:
        changed(base.setting, changes)
    except ChangeInvalid as error:
        raise Invalid(f"{str(error)[:1].upper()}{str(error)[1:]}.", field="changes") from None
    scenario = Scenario.objects.create(
        name=name.strip()[:80],
        pool=pool,
        hours=hours,
        changes=list(changes),
        asked_by=actor,
        created_at=now,
    )
    after = {"pool": pool.name if pool else "", "hours": hours, "changes": list(changes)}
    record(actor, "scenario.ask", scenario, after=after, now=now)
    events.send_on_commit(TASK)
    return scenario


@transaction.atomic
def forget_scenario(*, actor: User, scenario: Scenario) -> None:
    """Delete it and its answer."""
    require_operator(actor)
    record(actor, "scenario.forget", scenario, before={"name": scenario.name})
    scenario.delete()


def policy_wanted(scenario: Scenario) -> dict[str, Any]:
    """What a rule of the pool with the scenario's policy would say; empty if it changes none, or
    is of several pools, or places as nobody may choose.

    What it leaves open of the pool's own rule stays.
    """
    said = dict(change.partition("=")[::2] for change in scenario.changes)
    if scenario.pool is None or not {"policy", "preempt", "placement"} & said.keys():
        return {}
    if "placement" in said and said["placement"] not in PLACEMENTS:
        return {}
    rule = PoolRule.objects.filter(pool=scenario.pool, ended_at=None).first()
    policy = policy_of_pool(scenario.pool)
    # Said, not left to the order's own default: as it was replayed.
    preempts = said["preempt"] == "yes" if "preempt" in said else policy.preempts
    name = said.get("policy") or str(policy.order)
    # Where running jobs are rearranged patience would be refused: it has no effect.
    rearranges = Policy(order=Order(name), preempts=preempts).rearranges
    return {
        "name": name,
        "placement": said.get("placement") or (rule.placement if rule else ""),
        "preempts": preempts,
        "head_patience_s": rule.head_patience_s if rule and not rearranges else None,
    }


def apply_scenario(*, actor: User, scenario: Scenario) -> PoolRule | None:
    """Put its policy in force for its pool; None where that follows the cluster then.

    Raises Conflict, Invalid, Forbidden.
    """
    require_operator(actor)
    wanted = policy_wanted(scenario)
    if scenario.progress != "done" or scenario.pool is None or not wanted:
        raise Conflict("Only a policy of one pool whose replay is done can be put in force.")
    return set_pool_policy(actor=actor, pool=scenario.pool, **wanted)


def simulate_scenarios(*, now: datetime | None = None, most: int = 5) -> int:
    """Work out what waits, oldest first; how many were done. Safe when two run at once."""
    now = now or timezone.now()
    done = 0
    for scenario in list(claims.waiting(Scenario.objects.select_related("pool"))[:most]):
        if claims.claim(scenario):
            _simulate(scenario, now)
            done += 1
    return done


def _simulate(scenario: Scenario, now: datetime) -> None:
    try:
        answer = _answer(scenario, now)
        progress = "done" if answer["measures"] else "empty"
    except claims.ClaimLost:
        return
    except Exception as error:
        logger.exception("scenario %s failed", scenario.pk)
        answer, progress = {"problem": str(error)[:500]}, "failed"
    told = claims.tell(scenario, answer=answer, progress=progress, finished_at=timezone.now())
    if told and scenario.asked_by_id:
        events.publish_on_commit(f"user:{scenario.asked_by_id}")


def _answer(scenario: Scenario, now: datetime) -> dict[str, Any]:
    """Of the hours before it was asked, so that asking later gives the same."""
    base = _base_of(scenario.pool, scenario.hours, scenario.created_at)
    wanted = changed(base.setting, scenario.changes)

    def tell(_done: int) -> None:
        claims.go_on(scenario)

    impact = impact_of(
        base.window.workload,
        (base.setting, wanted),
        tell=tell,
        prices=base.prices,
    )
    settings = [one.pools(base.window.workload.gpus_per_node) for one in (base.setting, wanted)]
    return {
        "nodes": [sum(one.nodes) for one in settings],
        "policy": [_said(base.setting), _said(wanted)],
        "jobs": impact.jobs,
        "left_out": impact.left_out,
        "measures": [asdict(one) for one in impact.measures],
        "teams": [asdict(team) for team in impact.teams],
        "pools": [
            {
                "name": name,
                "nodes": [one.nodes[row] for one in settings],
                "gpus_per_node": settings[0].gpus_per_node[row],
                "measures": [asdict(one) for one in pair],
            }
            for row, (name, pair) in enumerate(zip(settings[0].names, impact.by_pool, strict=False))
        ],
        "currency": load_conf().currency if None not in base.prices else "",
        "notes": list(base.notes),
        "traces": [_trace_text(base.window, run) for run in impact.runs],
    }


def _trace_text(window: Window, run: Run) -> str:
    """What became of the jobs in one setting, kept as it was: more of them may end later."""
    size = len(window.workload)
    trace = trace_of(window.workload, window.pools, window.teams)
    return "".join(trace_lines(trace, run.results(size)))


def _said(setting: Setting) -> str:
    """The policy in words, pool by pool where they differ."""
    names = setting.pools().names
    words = [_in_words(policy) for policy in setting.policy.by_pool(names)]
    if len(set(words)) == 1:
        return words[0]
    return "; ".join(f"{name}: {said}" for name, said in zip(names, words, strict=True))


def _in_words(policy: Policy) -> str:
    placement = "" if policy.placement is PlacementRule.TIGHT else f", {policy.placement}"
    return f"{policy.order}{', stops others' if policy.preempts else ''}{placement}"


def _base_of(pool: Pool | None, hours: int, until: datetime) -> _Base:
    pools = [pool] if pool else pools_with_gpus()
    if not pools:
        raise Invalid("No pool has GPUs yet.", field="pool")
    window = window_of(pools, until - timedelta(hours=hours), until, most_jobs=MOST_JOBS)
    models = {one.pk: models_of(one) for one in pools}
    teams = teams_today(window, pools, models, until)
    notes = []
    if len(window.workload) + window.skipped >= MOST_JOBS:
        notes.append(f"Only the newest {MOST_JOBS} jobs of that time were replayed.")
    if window.skipped:
        notes.append(f"Left out, without GPUs or larger than their pool: {window.skipped}.")
    if window.parts:
        notes.append(f"On a part of a GPU, and taken to hold a whole one: {window.parts}.")
    if any(len(names) > 1 for names in models.values()):
        notes.append("The simulator takes all GPUs of a pool for equal.")
    policy = replayable_policy(pools)
    setting = Setting(window.nodes, policy, teams, names=tuple(one.name for one in pools))
    prices = tuple(_price_of(models[one.pk], until) for one in pools)
    return _Base(window, setting, prices, tuple(notes))


def _price_of(models: set[str], at: datetime) -> float | None:
    """The mean price of a GPU-hour of these models; None if one has none."""
    table, currency = rates_over(models), load_conf().currency
    rates = [table.at(model, at) for model in sorted(models)]
    prices = [float(one.price_per_gpu_hour) for one in rates if one and one.currency == currency]
    return sum(prices) / len(prices) if prices and len(prices) == len(models) else None
