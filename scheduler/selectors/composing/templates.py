"""Templates, for a viewer: those of the viewer's teams and the public ones."""

from __future__ import annotations

import re

from django.db.models import OuterRef, Q, QuerySet, Subquery

from accounts.errors import NotFound
from accounts.models import Team, User
from accounts.permissions import can, team_ids_for, teams_visible_to
from scheduler.models import Job, JobTemplate, TemplateUse, TemplateVersion

_REFERENCE = re.compile(r"([a-z0-9-]{1,96})(?:@(\d{1,9}))?", re.ASCII)


def visible_templates(viewer: User, *, with_retired: bool = False) -> QuerySet[JobTemplate]:
    """With `last_used_at`, by anybody, and `last_used_by_me_at`."""
    teams = team_ids_for(viewer)
    seen = JobTemplate.objects.select_related("team", "created_by", "forked_from__template")
    if teams is not None:
        seen = seen.filter(Q(is_public=True) | Q(team__in=teams))
    if not with_retired:
        seen = seen.filter(retired_at=None)
    uses = TemplateUse.objects.filter(version__template=OuterRef("pk")).order_by("-used_at")
    mine = uses.filter(job__owner=viewer)
    return seen.annotate(
        last_used_at=Subquery(uses.values("used_at")[:1]),
        last_used_by_me_at=Subquery(mine.values("used_at")[:1]),
    ).order_by("team__name", "name", "pk")


def get_visible_template(viewer: User, slug: str) -> JobTemplate:
    """Raises NotFound for a missing and for a foreign one alike."""
    found = visible_templates(viewer, with_retired=True).filter(slug=slug).first()
    if found is None:
        raise NotFound("There is no such template for you.")
    found.seen_by = viewer
    return found


def versions_of(viewer: User, template: JobTemplate) -> QuerySet[TemplateVersion]:
    """The newest first; of the very object that was just found for the viewer nothing is asked."""
    if template.seen_by is not viewer:
        get_visible_template(viewer, template.slug)
    return template.versions.select_related("written_by", "template").order_by("-number")


def get_version(viewer: User, reference: str) -> TemplateVersion:
    """The version that `slug@3` names, the newest for `slug`; raises NotFound."""
    match = _REFERENCE.fullmatch(reference)
    missing = NotFound("There is no such template for you.", field="template")
    if match is None:
        raise missing
    teams = team_ids_for(viewer)
    rows = TemplateVersion.objects.select_related("template__team", "written_by")
    rows = rows.filter(template__slug=match[1])
    if teams is not None:
        rows = rows.filter(Q(template__is_public=True) | Q(template__team__in=teams))
    if match[2]:
        rows = rows.filter(number=min(int(match[2]), 2**31 - 1))
    found = rows.order_by("-number").first()
    if found is None:
        raise missing
    return found


def uses_of(job: int, job_set: int | None) -> QuerySet[TemplateUse]:
    """What a job was made from; of an array it is said at the first task, for all of them."""
    uses = TemplateUse.objects.all()
    return uses.filter(job__job_set=job_set) if job_set else uses.filter(job=job)


def version_of_job(viewer: User, job: Job) -> TemplateVersion | None:
    """What a job that is visible was made from, if the viewer sees that too."""
    use = uses_of(job.pk, job.job_set_id).select_related("version__template").first()
    if use is None:
        return None
    try:
        return get_version(viewer, use.version.reference)
    except NotFound:
        return None


def writable_teams(viewer: User) -> QuerySet[Team]:
    """The teams whose templates the viewer writes."""
    return teams_visible_to(viewer, "manage_team")


def leads_any(viewer: User) -> bool:
    """Whether the viewer writes templates at all; asks for nothing but rights."""
    teams = team_ids_for(viewer, "manage_team")
    return teams is None or bool(teams)


def may_write(viewer: User, template: JobTemplate) -> bool:
    """Whether the viewer adds versions to it and retires it."""
    return can(viewer, "manage_team", template.team)
