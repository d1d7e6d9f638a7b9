"""How many jobs an account may have waiting: looked at when more are submitted."""

from __future__ import annotations

from django.db.models import QuerySet

from accounts.models import Project
from scheduler.models import Account, Job
from scheduler.services.sharing.tree import below, on_the_way, whose_account
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.states import WAITING_JOB_STATES


def capped_on_the_way(project: Project) -> QuerySet[Account]:
    """The accounts on the project's way to the root that have such a cap."""
    return Account.objects.filter(
        on_the_way([(project.pk, project.team_id)]), max_pending__isnull=False
    )


def refuse_beyond_cap(project: Project, more: int) -> None:
    """Raises SpecInvalid if `more` jobs are too many for the project or an account above it.

    Only accounts with such a cap are locked, so that two submits do not both take the last place.
    """
    capped = capped_on_the_way(project).select_for_update()
    for account in capped.order_by("depth", "pk"):
        waiting = Job.objects.filter(below(account, "project"), state__in=WAITING_JOB_STATES)
        count, most = waiting.count(), account.max_pending or 0
        if count + more > most:
            whose = whose_account(account, project) or "all teams together"
            words = (
                f"would bring {more + count} waiting jobs to {whose}, and {most} are allowed; "
                f"{count} wait now. Let some start, or cancel some"
            )
            raise SpecInvalid([SpecProblem("array" if more > 1 else "project", words)])
