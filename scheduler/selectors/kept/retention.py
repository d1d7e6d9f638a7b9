"""How long what a project's jobs leave is kept."""

from __future__ import annotations

from dataclasses import dataclass

from accounts.models import Project, User
from accounts.permissions import can
from scheduler.conf import load_conf
from scheduler.models import Retention


@dataclass(frozen=True, slots=True)
class Kept:
    """Days as the project says, None for the defaults that stand beside them."""

    log_days: int | None
    file_days: int | None
    sample_days: int | None
    default_log_days: int
    default_file_days: int
    default_sample_days: int
    may_set: bool


def retention_of(viewer: User, project: Project) -> Kept:
    """For who sees the project, which the caller has looked up for the viewer."""
    own = Retention.objects.filter(project=project).first()
    conf = load_conf()
    return Kept(
        own.log_days if own else None,
        own.file_days if own else None,
        own.sample_days if own else None,
        conf.keep_log_days,
        conf.keep_file_days,
        conf.keep_hour_days,
        can(viewer, "manage_project", project),
    )
