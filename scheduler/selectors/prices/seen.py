"""Whether a viewer may see what a job costs, and what others see of it."""

from __future__ import annotations

from datetime import datetime

from accounts.models import User
from accounts.permissions import can
from scheduler.models import Job, JobSchedule, JobSet
from scheduler.spec import JobSpec
from scheduler.states import LIVE_JOB_STATES


def may_see_cost(viewer: User, job: Job | JobSet | JobSchedule) -> bool:
    """Owners see what their own jobs cost, others by their role."""
    return job.owner_id == viewer.pk or can(viewer, "view_costs", job.project)


def priced_for(viewer: User, job: Job | JobSet | JobSchedule, spec: JobSpec) -> JobSpec:
    """Its spec, without its highest price for who may not see what it costs."""
    if spec.max_cost is None or may_see_cost(viewer, job):
        return spec
    return spec.model_copy(update={"max_cost": None})


def paid_until(job: Job) -> datetime | None:
    """When an attempt that holds GPUs ends at the latest for its highest price; None for none. One
    query for a job that has one and runs."""
    if job.max_cost_steps is None or job.state not in LIVE_JOB_STATES:
        return None
    live = job.attempts.filter(ended_at__isnull=True, cost_limit_s__isnull=False)
    last = live.only("assigned_at", "cost_limit_s").order_by("-number").first()
    return last.paid_until if last else None
