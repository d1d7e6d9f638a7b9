"""guardian's permission tables, with real foreign keys instead of generic ones."""

from __future__ import annotations

from django.db import models
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from accounts.models.projects import Project
from accounts.models.teams import Team


class ProjectUserObjectPermission(UserObjectPermissionBase):
    """Rights of people on one project."""

    content_object = models.ForeignKey(Project, on_delete=models.CASCADE)


class ProjectGroupObjectPermission(GroupObjectPermissionBase):
    """Rights of groups of people on one project."""

    content_object = models.ForeignKey(Project, on_delete=models.CASCADE)


class TeamUserObjectPermission(UserObjectPermissionBase):
    """Rights of people on one team."""

    content_object = models.ForeignKey(Team, on_delete=models.CASCADE)


class TeamGroupObjectPermission(GroupObjectPermissionBase):
    """Rights of groups of people on one team."""

    content_object = models.ForeignKey(Team, on_delete=models.CASCADE)
