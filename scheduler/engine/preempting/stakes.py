"""Who may be stopped at all, and what would be lost."""

from __future__ import annotations

import numpy as np

from scheduler.engine.policy import Policy
from scheduler.engine.snapshot import NONE, Flags, Floats, Running, flags, floats
from scheduler.engine.worth import gpus_of

# Each tier (they are ten apart) makes lost work count twice as much as the one below.
TIER_STEP, TIER_FACTOR = 10.0, 2.0


def may_stop(running: Running, policy: Policy) -> Flags:
    """Live jobs whose promised run time is over and that were not stopped a moment ago.

    Nobody is stopped for another on GPUs that were booked for it.
    """
    has_run = running.ran_s >= np.maximum(running.least_s, policy.min_run_s)
    is_booked = running.jobs.booking != NONE
    return flags(has_run & (running.rested_s >= policy.rest_s) & ~is_booked)


def lost_work_s(running: Running) -> Floats:
    """Seconds of work that each job would have to do again if it were stopped now.

    That is the time since its last confirmed checkpoint. Who never reported one is taken to have
    one of the median age, so that hiding checkpoints protects nobody and having none condemns
    nobody (proposed in github.com/kubernetes-sigs/kueue/issues/477). Nobody loses more than it ran.
    """
    age_s = running.checkpoint_age_s
    reports = np.isfinite(age_s)
    usual_s = float(np.median(age_s[reports])) if reports.any() else np.inf
    ran_s = np.where(np.isfinite(running.ran_s), running.ran_s, running.jobs.attained_s)
    return floats(np.minimum(ran_s, np.where(reports, age_s, usual_s)))


def stop_price(running: Running) -> Floats:
    """What stopping each job costs: lost work and restart in GPU seconds, dearer by tier."""
    jobs = running.jobs
    weight = TIER_FACTOR ** (jobs.tier / TIER_STEP)
    # A second for the stop itself: of two that lose nothing the smaller one goes.
    lost_s = lost_work_s(running) + running.restart_cost_s + 1.0
    return floats(lost_s * np.maximum(gpus_of(jobs), 1) * weight)
