"""How long a job may be meant to run: the longest time of a team, a project or the organisation.

It lies on a quota, for one pool or all of them, and grants add hours to it until a date. The
shortest on the way up to the organisation holds. It counts when a job is submitted: who waits or
runs already keeps its time limit.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from accounts.models import Project
from scheduler.models import Account, Pool, Quota
from scheduler.services.sharing.effective import effective_of
from scheduler.services.sharing.tree import on_the_way, whose_account
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.spec.units import format_duration

_S_PER_HOUR = 3600


def longest_on_the_way(
    project_id: int, team_id: int, pool: Pool | None, *, now: datetime, but: str = ""
) -> tuple[Quota, int] | None:
    """The quota with the shortest longest time, and its hours with the grants of now; None: none.

    Without a pool only what holds in all of them. `project_id` 0: of the team itself. `but`: the
    key of an account that is left out. One query, one more if there is any.
    """
    accounts = Account.objects.filter(on_the_way([(project_id, team_id)])).exclude(key=but)
    place = Q(pool=None) if pool is None else Q(pool=None) | Q(pool=pool)
    quotas = Quota.objects.filter(place, account__in=accounts, max_hours__isnull=False)
    found = {one.pk: one for one in quotas.select_related("account__team", "account__project")}
    if not found:
        return None
    limits = effective_of(found.values(), now=now)
    hours, pk = min((limits[pk].max_hours or 0, pk) for pk in found)
    return found[pk], hours


def refuse_longer(
    found: tuple[Quota, int] | None, project: Project, pool: Pool, time_limit_s: int
) -> None:
    """Raises SpecInvalid for a time limit beyond what was found for this project and pool."""
    if found is None or time_limit_s <= found[1] * _S_PER_HOUR:
        return
    quota, hours = found
    whose = whose_account(quota.account, project) or "the organisation"
    where = f" in pool {pool.name}" if quota.pool_id is not None else ""
    words = (
        f"may be {format_duration(hours * _S_PER_HOUR)} at most for {whose}{where}; choose a "
        "shorter one and save checkpoints, or ask for a longer one: trainyard requests ask "
        "--kind walltime, or the page Requests"
    )
    raise SpecInvalid([SpecProblem("time_limit", words)])
