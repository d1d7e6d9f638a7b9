"""guardian's permission tables, with real foreign keys instead of generic ones."""

from __future__ import annotations

from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from django.db import models

from accounts.models.projects import Project
from accounts.models.teams import Team


class ProjectUserObjectPermission(UserObjectPermissionBase):
    content_object = models.ForeignKey(Project, on_delete=models.CASCADE)


class ProjectGroupObjectPermission(GroupObjectPermissionBase):
    content_object = models.ForeignKey(Project, on_delete=models.CASCADE)


class TeamUserObjectPermission(UserObjectPermissionBase):
    content_object = models.ForeignKey(Team, on_delete=models.CASCADE)


class TeamGroupObjectPermission(GroupObjectPermissionBase):
    content_object = models.ForeignKey(Team, on_delete=models.CASCADE)
