"""Celery's hands: thin tasks, and the scheduling loop that a worker carries.

The worker that serves the queue `scheduling` runs the loop in a thread of its own. The thread
depends on the database alone: with the broker down it goes on ticking, and a lost wake costs
a second at most. Of several such workers the lease holder schedules; all hear each wake, and the
others do not stir.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

from celery import bootsteps, shared_task
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone

from accounts.services import sealing
from accounts.services.ending import access
from scheduler.collecting import settle
from scheduler.events import SCHEDULING
from scheduler.hearing import call_at_hints
from scheduler.loop.cycle import Scheduler
from scheduler.loop.lease import own_name
from scheduler.loop.supposing import in_time
from scheduler.services import books, invariants, jobs, telemetry, usage
from scheduler.services.books.months import calendar
from scheduler.services.budgets.telling import tell_alerts
from scheduler.services.idling import ladder
from scheduler.services.inbox import delivering, digesting
from scheduler.services.inbox import mailing as notifying
from scheduler.services.kept import pruning, reports
from scheduler.services.mailing import ending, sending
from scheduler.services.nodes import credentials
from scheduler.services.requesting import reminding
from scheduler.services.requesting.foreseeing import whatif
from scheduler.services.sessions import prune_passes, stop_idle_sessions
from scheduler.services.simulating import scenarios, waiting
from scheduler.services.timeline import days, hours
from scheduler.services.timeline.clock import CLOCK
from scheduler.services.timeline.segments import reconcile_segments

logger = logging.getLogger(__name__)

QUEUE = "scheduling"
TICK_S = 1.0
# Wakes that arrive within this time share one cycle.
COALESCE_S = 0.01
# A cycle rests for as long as it took, so that a busy loop leaves the database to others half of
# the time; three times as long while jobs wait for what others hold: what is given back meanwhile
# is shared out by one cycle instead of by many.
REST, REST_WITH_QUEUE = 1.0, 3.0
MAX_REST_S = 0.2
STOP_WITHIN_S = 15.0

_wake = threading.Event()


@shared_task
def accrue_usage() -> int:
    """Write the usage rows of full hours, sum them up by day, and see all devices' time counted."""
    now = timezone.now()
    reconcile_segments(now=now)
    rows = usage.accrue_usage(now=now)
    days.count_days(now=now)
    return rows


@shared_task
def tell_budget_alerts() -> int:
    """Tell the alerts of budgets that nobody was told yet."""
    return tell_alerts(now=timezone.now())


@shared_task
def tell_late_jobs() -> int:
    """Tell the owners of waiting jobs that are expected to be finished too late."""
    return in_time.tell_late_jobs(now=timezone.now())


@shared_task
def renew_node_tokens() -> int:
    """Begin to replace tokens of nodes that have become old."""
    return credentials.renew_old_tokens(now=timezone.now())


@shared_task
def prune_telemetry() -> int:
    """Delete samples and cycle records older than the retention."""
    return telemetry.prune_telemetry(now=timezone.now())


@shared_task
def count_hours() -> int:
    """Count what happened in every pool's line in the hours that are over."""
    return hours.count_hours(now=timezone.now())


@shared_task
def learn_wait_limits() -> int:
    """Replay the past of the pools whose order can starve somebody."""
    return waiting.learn_wait_limits(now=timezone.now())


@shared_task
def prune_kept() -> int:
    """Delete logs and files of jobs, and files of reports, that were kept for long enough."""
    now = timezone.now()
    done = pruning.prune_kept(now=now, within_s=60)
    return done.items + reports.prune_report_files(now=now)


@shared_task
def tend_sessions() -> int:
    """Stop sessions that nobody uses, and forget passes that open nothing any more."""
    now = timezone.now()
    prune_passes(now=now)
    return stop_idle_sessions(now=now)


@shared_task
def tend_idle_jobs() -> int:
    """Warn, pause and stop jobs whose GPUs do little, as rules of projects and pools say."""
    return ladder.tend_idle_jobs(now=timezone.now())


@shared_task
def forget_sign_ins() -> int:
    """Delete browser sessions and changes of mail addresses that are over."""
    return access.forget_over(now=timezone.now())


@shared_task
def prune_submit_keys() -> int:
    """Forget idempotency keys older than a day."""
    return jobs.prune_submit_keys(now=timezone.now())


@shared_task
def seal_audit() -> int:
    """Chain the audit's events that are settled."""
    return sealing.seal_audit(now=timezone.now())


@shared_task
def close_months() -> int:
    """Close the months of the books that are due by the calendar."""
    return calendar.close_by_calendar(now=timezone.now())


@shared_task
def count_months() -> int:
    """Count the large months that people asked for."""
    return books.do_countings()


@shared_task
def reconcile_books() -> bool:
    """Nightly: what nodes told late is booked and budgets count what the ledger says; then, whether
    what was measured, booked, billed and shown still ties together."""
    now = timezone.now()
    calendar.correct_by_late_reports(now=now)
    books.true_up_budgets(now=now)
    return books.reconcile_books(now=now).holds


@shared_task
def check_invariants() -> bool:
    """Nightly: whether what is promised holds on live data."""
    return invariants.check_invariants(now=timezone.now()).is_sound


@shared_task
def simulate_requests() -> int:
    """Work out the what-ifs that approvers wait for, then the scenarios of operators."""
    now = timezone.now()
    return whatif.simulate_waiting(now=now) + scenarios.simulate_scenarios(now=now)


@shared_task
def tend_requests() -> int:
    """Remind, escalate and close requests for quota; tell of grants that end."""
    now = timezone.now()
    return sum(reminding.tend_requests(now=now).values()) + ending.notify_of_ends(now=now)


@shared_task
def send_mails() -> int:
    """Make mails of notifications, and of those that came together; send those that wait."""
    now = timezone.now()
    notifying.write_mails(now=now)
    digesting.write_digests(now=now)
    return sending.send_mails(now=now)


@shared_task
def send_webhooks() -> int:
    """Take up what people were told for the programs and chats that are told it too, and send what
    waits."""
    return delivering.deliver(now=timezone.now())


@shared_task
def prune_notifications() -> int:
    """Delete notifications that were read long ago, or that nobody reads; old deliveries and mails,
    too."""
    now = timezone.now()
    told = notifying.prune_notifications(now=now) + delivering.prune_deliveries(now=now)
    told += digesting.prune_waiting(now=now)
    return told + sending.prune_mails(now=now)


class LoopThread(threading.Thread):
    """Runs cycles until told to stop: one a second at least, at once after a wake."""

    def __init__(self) -> None:
        super().__init__(name="scheduling-loop", daemon=True)
        self._scheduler = Scheduler(holder=own_name())
        self._stopping = threading.Event()
        self._rest = REST

    def run(self) -> None:
        """Tick; on the way out hand the lease to whoever waits for it."""
        settle()
        CLOCK.keep_in(Path(settings.STATE_DIR) / "clock.json")
        threading.Thread(target=_hear_wakes, name="wakes", daemon=True).start()
        while not self._stopping.is_set():
            began = time.monotonic()
            self._tick()
            took_s = time.monotonic() - began
            if self._scheduler.lease is None:
                # What can start is the holder's affair.
                self._stopping.wait(TICK_S)
                continue
            rested_at = time.monotonic() + min(MAX_REST_S, took_s * self._rest)
            _wake.wait(TICK_S)
            if _wake.is_set():
                self._stopping.wait(max(COALESCE_S, rested_at - time.monotonic()))
        try:
            self._scheduler.release(timezone.now())
        except Exception:
            logger.exception("the lease could not be released; it runs out by itself")
        finally:
            connections.close_all()

    def stop(self) -> None:
        """Finish the cycle under way, release the lease, end."""
        self._stopping.set()
        _wake.set()
        self.join(STOP_WITHIN_S)

    def _tick(self) -> None:
        _wake.clear()
        CLOCK.look(timezone.now(), time.monotonic())
        try:
            outcome = self._scheduler.run_cycle(timezone.now())
            self._rest = REST_WITH_QUEUE if outcome.waiting else REST
        except Exception:
            logger.exception("a scheduling cycle failed; the next one tries again")
            connections.close_all()


def _hear_wakes() -> None:
    """Serve `_wake` for as long as the process lives."""
    asyncio.run(call_at_hints(SCHEDULING, _wake.set))


class SchedulingLoop(bootsteps.StartStopStep):
    """Worker step: carries the loop thread if the worker serves the queue `scheduling`.

    A step of the worker, not of its consumer: it starts before any connection to the broker is
    tried, so that the loop does not depend on one.
    """

    requires = ("celery.worker.components:Timer",)

    def include_if(self, worker: Any) -> bool:
        """Only workers started with `-Q scheduling`."""
        return QUEUE in worker.app.amqp.queues.consume_from

    def create(self, worker: Any) -> LoopThread:
        """The thread, not yet started. The queue only says who schedules: it has no tasks."""
        pool = worker.pool_cls.__module__
        if not pool.endswith((".thread", ".solo")):
            raise ImproperlyConfigured(f"Queue {QUEUE} needs a worker with -P threads, not {pool}.")
        worker.app.amqp.queues.deselect([QUEUE])
        worker.scheduling_loop = LoopThread()
        return worker.scheduling_loop

    def stop(self, worker: Any) -> None:
        """Release the lease before the process ends."""
        self.obj.stop()

    terminate = stop
