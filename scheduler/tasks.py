"""Celery's hands: thin tasks, and the scheduling loop that a worker carries.

The worker that serves the queue `scheduling` runs the loop in a thread of its own. The thread
depends on the database alone: with the broker down it goes on ticking, and a lost wake costs
a second at most. Of several such workers the lease holder schedules; all hear each wake, and the
others do not stir.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps, shared_task
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from accounts.services import sealing
from accounts.services.ending import access
from scheduler.loop.supposing import in_time
from scheduler.loop.ticking import LoopThread
from scheduler.services import books, invariants, jobs, telemetry, usage
from scheduler.services.books.months import calendar
from scheduler.services.budgets.telling import tell_alerts
from scheduler.services.idling import ladder
from scheduler.services.inbox import delivering, digesting
from scheduler.services.inbox import mailing as notifying
from scheduler.services.inbox.watched.starting import tell_watchers_of_starts
from scheduler.services.inbox.watched.unwatching import forget_watches
from scheduler.services.kept import pruning, reports
from scheduler.services.mailing import ending, sending
from scheduler.services.nodes import credentials
from scheduler.services.recurring import running
from scheduler.services.requesting import reminding
from scheduler.services.requesting.foreseeing import whatif
from scheduler.services.sessions import prune_passes, stop_idle_sessions
from scheduler.services.simulating import scenarios, waiting
from scheduler.services.timeline import days, hours, wasted_days
from scheduler.services.timeline.readings import hours as read_hours
from scheduler.services.timeline.segments import reconcile_segments

QUEUE = "scheduling"


@shared_task
def accrue_usage() -> int:
    """See all devices' time counted, write the usage rows of full hours, sum up days."""
    now = timezone.now()
    reconcile_segments(now=now)
    rows = usage.accrue_usage(now=now)
    days.count_days(now=now)
    wasted_days.sum_days(now=now, within_s=60)
    return rows


@shared_task
def sum_hours() -> int:
    """Sum what today's readings say of attempts, up to a minute and a half ago."""
    return read_hours.sum_hours(now=timezone.now(), within_s=30)


@shared_task
def tell_budget_alerts() -> int:
    """Tell the alerts of budgets that nobody was told yet."""
    return tell_alerts(now=timezone.now())


@shared_task
def tell_late_jobs() -> int:
    """Tell owners whose waiting jobs look late, and whose running ones come near their limit."""
    return in_time.tell_of_time(now=timezone.now())


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
    """Delete logs and files of jobs, and files of reports, that were kept for long enough, and who
    watched what is over or may no longer be seen."""
    now = timezone.now()
    done = pruning.prune_kept(now=now, within_s=60)
    return done.items + reports.prune_report_files(now=now) + forget_watches()


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
def submit_due_jobs() -> int:
    """Submit the jobs of schedules that are due."""
    return running.submit_due(now=timezone.now())


@shared_task
def forget_sign_ins() -> int:
    """Delete browser sessions, changes of mail addresses and keys of forms that are over."""
    return access.forget_over(now=timezone.now())


@shared_task
def prune_submit_keys() -> int:
    """Forget idempotency keys that are over, and what came of schedules' times long ago."""
    now = timezone.now()
    return jobs.prune_submit_keys(now=now) + running.prune_schedule_runs(now=now)


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
    """Tell of starts that somebody watches for. Make mails of notifications, and of those that came
    together; send those that wait."""
    now = timezone.now()
    tell_watchers_of_starts(now=now)
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
    """Delete what was read long ago or nobody reads; old deliveries and mails, too."""
    now = timezone.now()
    told = notifying.prune_notifications(now=now) + delivering.prune_deliveries(now=now)
    told += digesting.prune_waiting(now=now)
    return told + sending.prune_mails(now=now)


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
