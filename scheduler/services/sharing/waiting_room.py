"""How many jobs may wait and sessions be open for an account: looked at when more are submitted."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from accounts.models import Project
from scheduler.models import Account, Job
from scheduler.services.sharing.tree import below, on_the_way, whose_account
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.states import OPEN_JOB_STATES, WAITING_JOB_STATES


def capped_on_the_way(project: Project) -> QuerySet[Account]:
    """The accounts on the project's way to the root that have such a cap."""
    capped = Q(max_pending__isnull=False) | Q(max_sessions__isnull=False)
    return Account.objects.filter(on_the_way([(project.pk, project.team_id)]), capped)


def refuse_beyond_cap(project: Project, more: int, *, is_session: bool, going: int = 0) -> None:
    """Raises SpecInvalid if `more` jobs are too many for the project or an account above it, when
    `going` of its waiting ones make room for them.

    Only accounts with such a cap are locked, so that two submits do not both take the last place.
    """
    capped = capped_on_the_way(project).select_for_update()
    for account in capped.order_by("depth", "pk"):
        whose = whose_account(account, project) or "all teams together"
        jobs = Job.objects.filter(below(account, "project"))
        if account.max_pending is not None and more > going:
            _refuse_waiting(jobs, account.max_pending, more, whose, going)
        if account.max_sessions is not None and is_session:
            _refuse_open(jobs, account.max_sessions, whose)


def _refuse_waiting(jobs: QuerySet[Job], most: int, more: int, whose: str, going: int) -> None:
    count = jobs.filter(state__in=WAITING_JOB_STATES).count() - going
    if count + more > most:
        words = (
            f"would bring {more + count} waiting jobs to {whose}, and {most} are allowed; "
            f"{count} wait now. Let some start, or cancel some"
        )
        raise SpecInvalid([SpecProblem("array" if more > 1 else "project", words)])


def _refuse_open(jobs: QuerySet[Job], most: int, whose: str) -> None:
    count = jobs.filter(session__isnull=False, state__in=OPEN_JOB_STATES).count()
    if count >= most:
        words = (
            f"would be session {count + 1} of {whose}, and {most} may be open at a time. "
            "Stop one that nobody needs, or wait until one has ended"
        )
        raise SpecInvalid([SpecProblem("session", words)])
