"""The Celery app: two queues, and the beat schedule in one readable table.

Whose worker serves the queue `scheduling` carries the scheduling loop (see `scheduler/tasks.py`);
queue `default` does what may be late.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import Any

from celery import Celery, signals, states
from celery.beat import PersistentScheduler

from accounts.origin import enter_origin, leave_origin
from portal.beats import note_run

logger = logging.getLogger(__name__)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.embedded")
# Django's checks load every page, which workers and the clock would do for nothing: 1.2 s each.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("trainyard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduler"])

# By name: the step loads the models, which a worker may only do once Django is set up.
app.steps["worker"].add("scheduler.tasks:SchedulingLoop")

# task: every so many seconds. `expires` keeps a backlog from piling up while workers are away.
EVERY_S = {
    "scheduler.tasks.seal_audit": 5,
    "scheduler.tasks.tend_sessions": 15,
    "scheduler.tasks.tend_idle_jobs": 60,
    "scheduler.tasks.submit_due_jobs": 60,
    "scheduler.tasks.sum_hours": 60,
    "scheduler.tasks.simulate_requests": 30,
    "scheduler.tasks.send_mails": 30,
    "scheduler.tasks.send_webhooks": 30,
    "scheduler.tasks.tend_requests": 600,
    "scheduler.tasks.tell_budget_alerts": 60,
    "scheduler.tasks.tell_late_jobs": 60,
    "scheduler.tasks.accrue_usage": 3600,
    "scheduler.tasks.prune_telemetry": 600,
    "scheduler.tasks.renew_node_tokens": 3600,
    "scheduler.tasks.count_hours": 600,
    "scheduler.tasks.learn_wait_limits": 3600,
    "scheduler.tasks.prune_submit_keys": 3600,
    "scheduler.tasks.forget_sign_ins": 3600,
    "scheduler.tasks.prune_kept": 3600,
    "scheduler.tasks.prune_notifications": 3600,
    "scheduler.tasks.close_months": 3600,
    "scheduler.tasks.count_months": 5,
    "scheduler.tasks.reconcile_books": 86_400,
    "scheduler.tasks.check_invariants": 86_400,
    "portal.celery.learn_sizes": 3600,
    "portal.celery.mail_reports": 900,
    "portal.celery.make_files": 10,
    "portal.celery.count_warnings": 30,
    "portal.celery.tend_demo": 15,
}
app.conf.beat_scheduler = "portal.celery:SteadyScheduler"
app.conf.beat_schedule = {
    name: {"task": name, "schedule": seconds, "options": {"expires": seconds}}
    for name, seconds in EVERY_S.items()
}


class SteadyScheduler(PersistentScheduler):
    """Beat's schedule. Where the machine's clock was put back, it counts from now what it has noted
    as run in a time that is yet to come.

    Celery's own would hand out nothing until the clock is there again: its last runs and its next
    ones are times of day, kept over restarts.
    """

    def tick(self, *arguments: Any, **named: Any) -> float:
        """Hand out at most one task; seconds until the next is due."""
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        if ahead:
            logger.warning("the clock was put back: %s tasks are counted from now", len(ahead))
            for entry in ahead:
                entry.last_run_at = now
            self._heap = None
        seconds: float = super().tick(*arguments, **named)
        return seconds


@signals.task_prerun.connect
def _enter(task_id: str, task: Any, **_: Any) -> None:
    """What a task changes is recorded with the task's name and id."""
    enter_origin(f"task:{task.name.rpartition('.')[2]}:{task_id}")


@signals.task_postrun.connect
def _leave(task: Any, state: str | None = None, **_: Any) -> None:
    """The regular ones leave a note for the health page."""
    leave_origin()
    if task.name in EVERY_S:
        note_run(task.name, succeeded=state == states.SUCCESS, now=datetime.now(UTC))


@app.task(name="portal.celery.learn_sizes")
def learn_sizes() -> int:
    """Tell the planner of an embedded database how large its tables have become."""
    from django.db import connection
    from django.utils.module_loading import import_string

    # By name, as that of the demonstration below.
    learnt: list[str] = import_string("portal.embedded.sqlite.sizes.learn_sizes")(connection)
    return len(learnt)


@app.task(name="portal.celery.mail_reports")
def mail_reports() -> int:
    """Send the reports that are due; what was sent already is not sent again."""
    from django.utils import timezone

    from portal.reports.books.mailing import mail_due_reports

    return mail_due_reports(now=timezone.now())


@app.task(name="portal.celery.tend_demo")
def tend_demo() -> int:
    """Load or remove the demonstration that an administrator asked for."""
    from django.utils import timezone
    from django.utils.module_loading import import_string

    # By name: pages read the table above, and have nothing to do with what commands carry out.
    done: int = import_string("portal.management.demo.carrying.tend_demo")(now=timezone.now())
    return done


@app.task(name="portal.celery.count_warnings")
def count_warnings() -> int:
    """Count the warnings in logs of attempts that have ended."""
    from django.utils import timezone

    from portal.terminal.counting import count_warnings

    return count_warnings(now=timezone.now())


@app.task(name="portal.celery.make_files")
def make_files() -> int:
    """Make the files of reports that people asked for."""
    from django.utils import timezone

    from portal.reports.books.making import make_report_files

    return make_report_files(now=timezone.now())
