"""Whether a highest price lets a job run at all, before it is accepted."""

from __future__ import annotations

from decimal import ROUND_UP, Decimal

from accounts.models import Project
from scheduler.conf import load_conf
from scheduler.models import Job, Pool
from scheduler.money import from_steps, steps_of
from scheduler.selectors.machines.shapes import largest_shape
from scheduler.services.prices.highest import ENDING_S, Dearest, least_s, spent_steps
from scheduler.services.submitting.columns import columns_of
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.price import format_price
from scheduler.spec.units import format_duration

_FIELD = "max_cost"
# From here on whole minutes are said.
_COARSE_S = 600
_CENT = Decimal("0.01")


def refuse_unpayable(
    spec: JobSpec,
    project: Project,
    pool: Pool,
    dearest: Dearest,
    job: Job | None = None,
    *,
    says_amount: bool = True,
) -> None:
    """Raises SpecInvalid where the highest price does not pay for a minute, or the least run time
    that is asked for, on the fewest nodes at the dearest price, or where no price is known.

    `job`: the one that asks for this by now; what it has cost so far is needed beside that.
    Not `says_amount`: who reads the refusal may not see what the job costs.
    """
    if spec.max_cost is None:
        return
    asked = Job(**columns_of(spec), project=project, pool=pool)
    needed = dearest.least_steps(asked)
    if needed is None:
        raise _refused("needs a price of the GPUs it may get, and none is set; leave it out")
    needed += 0 if job is None else spent_steps(job, dearest.now)
    if steps_of(spec.max_cost) < needed:
        short = f"does not pay for {format_duration(least_s(asked))} and the time to stop"
        if not says_amount:
            raise _refused(f"{short}; ask for fewer GPUs, or let who sees its costs raise it")
        least = from_steps(needed).quantize(_CENT, ROUND_UP)
        raise _refused(
            f"{short}; give at least {least} {load_conf().currency}, or ask for fewer GPUs"
        )


def highest_words(spec: JobSpec, pool: Pool, price: int | None, spent: int = 0) -> str:
    """For how long its highest price is enough, `price` being what a GPU-second costs and `spent`
    what it has cost so far, in steps; of one of many sizes on the most and on the fewest nodes.
    Who has its nodes alone pays for all their GPUs. Empty without one."""
    if spec.max_cost is None or not price:
        return ""
    left, currency = steps_of(spec.max_cost) - spent, load_conf().currency
    per_s = price * _gpus_paid(spec, pool)
    paid_s = _paid_s(left, per_s, spec)
    each = "The highest price of each task" if spec.array else "Its highest price"
    limit = format_duration(spec.time_limit)
    words = f"{each}, {format_price(spec.max_cost)} {currency}, is enough for "
    if paid_s >= spec.time_limit:
        return f"{words}the whole time limit of {limit}."
    whole = from_steps(per_s * spec.time_limit)
    most, fewest = int(spec.nodes), min([spec.nodes.least, *spec.node_sizes])
    on_all = f" on {most} nodes" if fewest < most else ""
    words += (
        f"{format_duration(paid_s)} at today's price{on_all}; the time limit of {limit} would cost "
        f"{whole:.2f} {currency}."
    )
    if fewest == most:
        return words
    longest_s = min(spec.time_limit, _paid_s(left, per_s * fewest // most, spec))
    nodes = f"{fewest} node{'' if fewest == 1 else 's'}"
    return (
        f"{words} On {nodes} it is enough for {format_duration(longest_s)}: it gets no more nodes "
        "than it pays for."
    )


def _gpus_paid(spec: JobSpec, pool: Pool) -> int:
    """On the most nodes it takes, as `Dearest` counts them."""
    if not spec.exclusive:
        return spec.gpus
    return int(spec.nodes) * max(spec.gpus_per_node, largest_shape(pool).gpus_per_node)


def _paid_s(left: int, per_s: int, spec: JobSpec) -> int:
    """For how many seconds so many steps pay at so many a second, the time to stop aside."""
    paid_s = max(0, left // per_s - spec.stop.grace - ENDING_S)
    return paid_s - paid_s % 60 if paid_s >= _COARSE_S else paid_s


def _refused(words: str) -> SpecInvalid:
    return SpecInvalid([SpecProblem(_FIELD, words)])
