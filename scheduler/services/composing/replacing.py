"""A job submitted instead of one that still waits."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from accounts.models import User
from scheduler.models import Job
from scheduler.services.errors import Conflict
from scheduler.services.jobs import Submitted, cancel_job
from scheduler.states import JobState


@transaction.atomic
def submit_instead(*, actor: User, waiting: Job, submit: Callable[[], Submitted]) -> Submitted:
    """Cancel a waiting job and accept what `submit` asks for, or neither.

    In this order, so that what the old one had pledged is there for the new one. The same key again
    gives the same job. Raises Conflict if the old one has started or ended, and whatever `submit`
    raises.
    """
    after = cancel_job(actor=actor, job=waiting)
    if after.state != JobState.CANCELLED:
        # Raised, so that a stop that was asked for just now never happens.
        raise Conflict(
            f"Job #{waiting.pk} does not wait any more: nothing was submitted or cancelled. "
            "Submit again to have this one as well."
        )
    return submit()
