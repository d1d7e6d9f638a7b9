"""Settings to one frozen value; nothing else in the scheduler reads settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings

from scheduler.engine.policy import Order, PlacementRule, Policy
from scheduler.ledger.periods import ClosingDays


@dataclass(frozen=True, slots=True)
class SchedulerConf:
    """Times in seconds, sizes in MiB; `order` and `placement` are words of `Order` and
    `PlacementRule`.

    `preempt`: "tiers", a job may stop others of lower tiers under the orders fair and fifo; "true",
    under shortest and las who runs is chosen anew as well; "false", nobody is stopped. Only who ran
    for `min_run_s` and was not stopped within `rest_s` is. `resize`: elastic jobs give nodes back
    before anybody is stopped, and get more where nobody waits and it pays. `tier_ceiling`: the
    highest tier where no operator has set one.

    `output_file_mib`, `output_job_mib`, `output_count`: how much of a job's output files is kept;
    `keep_*_days`: for how long after its end, where its project says nothing else; `keep_hour_days`
    is of the hours that readings are rolled up to.

    `session_longest_s`, `session_idle_s`: for how long a session may run, and rest, at most.
    `session_origin`: where sessions are served if not at `public_url`.

    `idle_below_percent`, `idle_span_s`: a GPU that was used less than that on average over such a
    span counts as allocated and idle.

    `booking_release_s`: a booking that nobody has used for so long is given back.

    `auto_close`: "full", a month is closed softly on `soft_close_day` of the next one and for good
    on `close_day`; "soft", softly alone; "off", people close it.

    `storage_pause_s`: before a job whose storage failed is tried again, at first; 0, never.

    `node_token_days`: a node's token is replaced once it is so old; 0, only by hand.

    `lost_after` is when a silent node's attempts may be declared dead: the supervisor on the node
    asks its program to stop after `disconnect_grace_s` and kills it when its stop grace is over,
    and the server waits that long, plus the lease, plus `lost_slack_s` to kill in, plus one per
    cent for a slow clock, before it starts a second copy.
    """

    node_lease_s: int
    disconnect_grace_s: int
    node_token_days: int
    lost_slack_s: int
    start_deadline_s: int
    storage_pause_s: int
    log_drain_s: int
    log_cap_mib: int
    output_file_mib: int
    output_job_mib: int
    output_count: int
    keep_log_days: int
    keep_file_days: int
    keep_hour_days: int
    keep_report_days: int
    sample_retention_s: int
    idle_below_percent: int
    idle_span_s: int
    order: str
    placement: str
    preempt: str
    min_run_s: int
    rest_s: int
    resize: bool
    heads: int
    booking_release_s: int
    session_longest_s: int
    session_idle_s: int
    session_origin: str
    tier_ceiling: str
    allow_file_git: bool
    currency: str
    auto_close: str
    soft_close_day: int
    close_day: int
    public_url: str

    @property
    def node_lease(self) -> timedelta:
        return timedelta(seconds=self.node_lease_s)

    @property
    def closing(self) -> ClosingDays:
        """When months of the books close by themselves."""
        return ClosingDays(
            soft=None if self.auto_close == "off" else self.soft_close_day,
            full=self.close_day if self.auto_close == "full" else None,
        )

    @property
    def policy(self) -> Policy:
        """The dials of a scheduling cycle, unless an operator has set a rule."""
        order = Order(self.order)
        return Policy(
            order=order,
            placement=PlacementRule(self.placement),
            heads=self.heads,
            preempts=self.preempts_under(order),
            min_run_s=self.min_run_s,
            rest_s=self.rest_s,
            resizes=self.resize,
        )

    def preempts_under(self, order: Order) -> bool:
        """Whether jobs may stop others under this order."""
        by_tier = order in (Order.FAIR, Order.FIFO)
        return self.preempt == "true" or (self.preempt == "tiers" and by_tier)

    @property
    def lost_after(self) -> timedelta:
        """The least: of a node on which nothing has to be stopped."""
        return self.lost_after_grace(0, 0)

    def lost_after_grace(self, asked_s: int, stop_s: int) -> timedelta:
        """`lost_after` where a job asked for the grace `asked_s` and has `stop_s` to stop in.

        A grace below the usual shortens nothing: the node then stops the program sooner, but an
        older agent may not know of it.
        """
        grace = max(self.disconnect_grace_s, asked_s) + stop_s
        return timedelta(seconds=grace * 1.01 + self.node_lease_s + self.lost_slack_s)


def load_conf() -> SchedulerConf:
    """The current settings as a value."""
    figures: dict[str, Any] = settings.TRAINYARD
    return SchedulerConf(**figures)
