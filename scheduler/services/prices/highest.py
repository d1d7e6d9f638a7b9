"""Jobs with a highest price: how long an attempt may run for what is left of it.

The limit is made when an attempt starts, and its node is told the earlier of it and the time limit.
The server stops it by its own clock as well, which counts from the start's first charged second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from accounts.selectors.rates import RateTable, rates_over
from scheduler.models import Allocation, Attempt, Job
from scheduler.money import (
    seconds_between,
    seconds_paid,
    split_by_hour,
    steps_of_cost,
    steps_per_s,
)
from scheduler.selectors.machines.shapes import largest_shape
from scheduler.selectors.usage import job_cost
from scheduler.services.sharing.prices import dearest_of
from scheduler.spec.schema import MAX_TIME_LIMIT_S
from scheduler.spec.units import format_duration

# Who gets less than this is not started for it.
SHORTEST_S = 60
# From the end of a program to its node's word of it: that is charged as well.
ENDING_S = 5


def held_by_price(attempt: Attempt) -> bool:
    """Whether its price ends before its time limit does."""
    limit_s = attempt.cost_limit_s
    return limit_s is not None and limit_s < attempt.job.time_limit_s


def spent_steps(job: Job, now: datetime) -> int:
    """What its attempts have cost until now, in steps; two queries where it was tried."""
    if job.pk is None or not job.attempts.exists():
        return 0
    return steps_of_cost(job_cost(job.owner, job, now=now).cost)


def left_steps(job: Job, now: datetime) -> int:
    """What its attempts have not cost yet of its highest price, in steps; never negative."""
    return max(0, (job.max_cost_steps or 0) - spent_steps(job, now))


def seconds_left(
    left: int, models: Sequence[str], team: int, now: datetime, table: RateTable | None = None
) -> int:
    """For how many seconds so many steps pay for GPUs of these models, one each, as rows of usage
    are priced, hour by hour; what has no price costs nothing. `table`: prices that were read."""
    return seconds_paid(left, now, MAX_TIME_LIMIT_S, _price_at(models, team, table))


def _price_at(
    models: Sequence[str], team: int, table: RateTable | None = None
) -> Callable[[datetime], int]:
    # Of hundreds of GPUs, for hundreds of hours: each model is looked up once an hour.
    prices, counts = table or rates_over(models), Counter(models).items()

    def price_at(moment: datetime) -> int:
        rates = ((prices.at(model, moment, team), gpus) for model, gpus in counts)
        return sum(steps_per_s(rate.price_per_gpu_hour) * gpus for rate, gpus in rates if rate)

    return price_at


def limit_left_s(attempt: Attempt, job: Job, now: datetime) -> int:
    """For how many seconds from now a live attempt of the job may go on for what is left of its
    highest price, on the devices that it holds; below zero where that is less than its grace."""
    seconds = seconds_left(left_steps(job, now), _held_by(attempt), job.project.team_id, now)
    return seconds - attempt.stop_grace_s - ENDING_S


def least_to_go_on(attempt: Attempt, job: Job, now: datetime) -> int:
    """What the job has to be allowed to cost, in steps, so that a live attempt of it may go on for
    `SHORTEST_S` and its time to stop."""
    price_at = _price_at(_held_by(attempt), job.project.team_id)
    until = now + timedelta(seconds=SHORTEST_S + attempt.stop_grace_s + ENDING_S)
    hours = split_by_hour(now, until)
    return spent_steps(job, now) + sum(price_at(a) * seconds_between(a, b) for a, b in hours)


def _held_by(attempt: Attempt) -> list[str]:
    held = Allocation.objects.filter(placement__attempt=attempt, released_at__isnull=True)
    return list(held.values_list("device__model", flat=True))


def least_s(job: Job) -> int:
    """For how many seconds an attempt of it has to be paid for to be worth its start."""
    return max(SHORTEST_S, job.min_runtime_s)


def short_facts(job: Job) -> dict[str, str]:
    """What to say of a job whose highest price does not pay for its least time. No amounts: who may
    see that it waits may not see what it costs."""
    return {"least": format_duration(least_s(job))}


class Dearest:
    """What the least time of jobs costs at most; prices are looked up once for all that ask for the
    same GPUs."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._price: dict[tuple[object, ...], int | None] = {}
        self._largest: dict[int, int] = {}

    def least_steps(self, job: Job) -> int | None:
        """Its least time and the time to stop, on the fewest nodes it takes at the dearest price
        within a month, in steps; None where one of its GPUs has no price, or none is there.

        The one rule at the submit, while it waits and before another attempt: who passes it can be
        started wherever the engine has room, which gives it no more nodes than `most_nodes`. The
        job is loaded with project and pool.
        """
        return self._steps_on(job, _sizes(job)[0])

    def most_nodes(self, job: Job, left: int) -> int:
        """The most nodes on which so many steps pay for its least time and the time to stop; the
        fewest it takes where they pay for none."""
        fewest, *more = _sizes(job)
        needed = ((nodes, self._steps_on(job, nodes)) for nodes in reversed(more))
        return next((nodes for nodes, steps in needed if steps is None or steps <= left), fewest)

    def _steps_on(self, job: Job, nodes: int) -> int | None:
        price = self.price_of(job)
        if price is None:
            return None
        gpus = self._gpus(job, nodes)
        return price * gpus * (least_s(job) + job.spec["stop"]["grace"] + ENDING_S)

    def pays(self, job: Job, spent: int | None = None) -> bool:
        """Whether what is left of its highest price is enough for that. `spent`: what it has cost
        so far, in steps, where that is known."""
        needed = self.least_steps(job)
        if needed is None:
            return True
        spent = spent_steps(job, self.now) if spent is None else spent
        return (job.max_cost_steps or 0) - spent >= needed

    def price_of(self, job: Job) -> int | None:
        """Steps of money per second of the dearest GPU it may get; None if one has no price."""
        team, models = job.project.team_id, tuple(job.gpu_models or [job.gpu_model])
        asked = (team, job.pool_id, models, job.gpu_milli)
        if asked not in self._price:
            self._price[asked] = dearest_of(team, job.pool_id, models, job.gpu_milli, now=self.now)
        return self._price[asked]

    def _gpus(self, job: Job, nodes: int) -> int:
        if not job.exclusive:
            return nodes * job.gpus_per_node
        # It has and pays for all GPUs of its nodes.
        if job.pool_id not in self._largest:
            self._largest[job.pool_id] = largest_shape(job.pool).gpus_per_node
        return nodes * max(job.gpus_per_node, self._largest[job.pool_id])


def _sizes(job: Job) -> list[int]:
    """The numbers of nodes it may be on, the fewest first."""
    least = min(job.nodes, job.nodes_min)
    named = sorted(size for size in job.node_sizes or () if least <= size <= job.nodes)
    return named or list(range(least, job.nodes + 1)) if least < job.nodes else [job.nodes]
