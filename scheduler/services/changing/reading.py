"""A change of a job as people write it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from scheduler.models import Job
from scheduler.services.changing.moments import Finishing
from scheduler.services.changing.prices import Pricing
from scheduler.services.changing.requests import Asks
from scheduler.services.changing.sizes import sizes_offered
from scheduler.services.errors import Invalid
from scheduler.spec.parts import NodeCount
from scheduler.spec.price import price
from scheduler.spec.schema import MAX_GPUS_PER_NODE
from scheduler.spec.units import parse_duration
from scheduler.spec.values import moment
from scheduler.states import WAITING_JOB_STATES, FinishPolicy, Tier

TIERS = {tier.name.lower(): tier for tier in Tier}
# What takes a moment back, or a price.
NO_MOMENT = "none"
_NOTHING, _SAME, _AS_PRICED = Asks(), Finishing(), Pricing()


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for; None leaves it as it is. `nodes`: the most of an elastic job, within what
    it was submitted with; `asks`: what only a waiting job may ask for instead; `finishing`: the
    moment by which it has to be finished; `pricing`: what it may cost at most."""

    time_limit_s: int | None = None
    tier: Tier | None = None
    nodes: int | None = None
    asks: Asks = _NOTHING
    finishing: Finishing = _SAME
    pricing: Pricing = _AS_PRICED

    def of(self, job: Job) -> Change:
        """The same, where another number of nodes is another request if the job waits and was not
        submitted for that number."""
        is_other = self.nodes is not None and self.nodes not in sizes_offered(job)
        if not is_other or job.state not in WAITING_JOB_STATES:
            return self
        return replace(self, nodes=None, asks=replace(self.asks, nodes=str(self.nodes)))


def read_change(
    time_limit: str = "",
    tier: str = "",
    nodes: str = "",
    *,
    gpus_per_node: str = "",
    gpu_model: str | None = None,
    pool: str = "",
    finish_by: str = "",
    finish_by_policy: str = "",
    max_cost: str = "",
    now: datetime | None = None,
) -> Change:
    """A change as people write it, empty for nothing, an empty model for any; raises Invalid."""
    seconds = None
    if time_limit:
        try:
            seconds = parse_duration(int(time_limit) if time_limit.isdecimal() else time_limit)
        except ValueError as wrong:
            raise Invalid(f"time_limit: {wrong}", field="time_limit") from None
    if tier and tier not in TIERS:
        raise Invalid(f"tier: choose one of {', '.join(TIERS)}.", field="tier")
    count = _read_nodes(nodes) if nodes else None
    is_range = count is not None and ".." in nodes
    asks = Asks(
        _read_gpus(gpus_per_node) if gpus_per_node else None,
        gpu_model,
        str(count.written()) if is_range and count else None,
        pool or None,
    )
    most = None if count is None or is_range else int(count)
    finishing = _read_finishing(finish_by.strip(), finish_by_policy, now)
    pricing = _read_price(max_cost.strip())
    return Change(seconds, TIERS[tier] if tier else None, most, asks, finishing, pricing)


def _read_price(text: str) -> Pricing:
    if text.lower() == NO_MOMENT:
        return Pricing(is_taken_back=True)
    try:
        return Pricing(price(text))
    except ValueError as wrong:
        raise Invalid(f"max_cost: {wrong}, or none.", field="max_cost") from None


def _read_nodes(text: str) -> NodeCount:
    try:
        return NodeCount.read(text)
    except ValueError as wrong:
        raise Invalid(f"nodes: {wrong}.", field="nodes") from None


def _read_gpus(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:6]) <= MAX_GPUS_PER_NODE):
        words = f"gpus_per_node: write a whole number from 0 to {MAX_GPUS_PER_NODE}."
        raise Invalid(words, field="gpus_per_node")
    return int(text)


def _read_finishing(text: str, policy: str, now: datetime | None) -> Finishing:
    """A moment, `+6h` from `now`, or none."""
    if policy and policy not in set(FinishPolicy):
        words = f"finish_by_policy: choose one of {', '.join(FinishPolicy)}."
        raise Invalid(words, field="finish_by_policy")
    what = FinishPolicy(policy) if policy else None
    if text.lower() == NO_MOMENT:
        return Finishing(is_taken_back=True)
    try:
        if text.startswith("+") and now is not None:
            later = now + timedelta(seconds=parse_duration(text[1:]))
            return Finishing(later.replace(microsecond=0), what)
        return Finishing(moment(text), what)
    except (ValueError, OverflowError) as wrong:
        words = f"finish_by: {wrong}, like +6h, or none."
        raise Invalid(words, field="finish_by") from None
