"""Whose jobs some are, and who might end every one of them."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, Q

from accounts.models import Project, User
from accounts.permissions import acting_for, can, in_own_right, projects_visible_to
from scheduler.models import BulkCancel, Job

# Owners, and of which project.
Parties = frozenset[tuple[int, Project]]


def parties_of(jobs: Iterable[Job]) -> Parties:
    """Of jobs that were read with their projects."""
    return frozenset((job.owner_id, job.project) for job in jobs)


def may_end(user: User, parties: Parties, *, besides: int | None = None) -> bool:
    """Whether the user might end every one of these jobs, as `cancel_job` asks; `besides`: not in
    the place of this person, who has spoken already. Of none at all operators alone."""
    if can(user, "operate", None):
        return True
    return bool(parties) and all(
        _may_end(user, owner, project, besides) for owner, project in parties
    )


def _may_end(user: User, owner: int, project: Project, besides: int | None) -> bool:
    if owner == user.pk and can(user, "submit_job", project):
        return True
    if in_own_right(user, "manage_project", project):
        return True
    return any(giver.pk != besides for giver in acting_for(user, "manage_project", project))


def ends_all(viewer: User) -> Q:
    """`may_end` of a row of proposals, as a condition: whoever might end every one of the jobs that
    it names, if it names any."""
    named = Job.objects.filter(bulk_cancels=OuterRef("pk")).order_by()
    own = Q(owner=viewer, project__in=projects_visible_to(viewer, "submit_job").values("pk"))
    managed = projects_visible_to(viewer, "manage_project").values("pk")
    others = named.exclude(own | Q(project__in=managed))
    return Q(Exists(named)) & ~Q(Exists(others))


def ended_for(user: User, parties: Parties, *, besides: int | None = None) -> User | None:
    """In whose place the user might end one of them; None in their own right, or as an operator."""
    if can(user, "operate", None):
        return None
    for owner, project in sorted(parties, key=lambda one: (one[1].pk, one[0])):
        if owner == user.pk or in_own_right(user, "manage_project", project):
            continue
        for giver in acting_for(user, "manage_project", project):
            if giver.pk != besides:
                return giver
    return None


def parties_named(proposals: Iterable[BulkCancel]) -> dict[int, Parties]:
    """By proposal, whose jobs it names; two statements for all, none for none."""
    found: dict[int, set[tuple[int, Project]]] = {one.pk: set() for one in proposals}
    if not found:
        return {}
    named = Job.objects.filter(bulk_cancels__in=list(found)).order_by()
    rows = list(named.values_list("bulk_cancels", "owner_id", "project_id").distinct())
    projects = Project.objects.select_related("team").in_bulk({project for _, _, project in rows})
    for number, owner, project in rows:
        found[number].add((owner, projects[project]))
    return {number: frozenset(parties) for number, parties in found.items()}
