"""Projects: the unit of billing and of permission."""

from __future__ import annotations

from django.db import models

from accounts.models.teams import Team


class Project(models.Model):
    """Work that one team pays for. People refer to it as `team/project`."""

    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="projects")
    name = models.CharField(max_length=128)
    name_key = models.CharField(max_length=256, editable=False)
    slug = models.SlugField(max_length=63)
    description = models.TextField(blank=True, max_length=4096)
    is_archived = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["team__slug", "slug"]
        constraints = [
            models.UniqueConstraint(fields=["team", "slug"], name="project_slug_once_per_team"),
            models.UniqueConstraint(fields=["team", "name_key"], name="project_name_once_per_team"),
        ]
        permissions = [
            ("submit_job", "Can submit jobs"),
            ("read_log", "Can read logs and specs of jobs"),
            ("read_metrics", "Can read what the GPUs of jobs did"),
            ("view_costs", "Can see what the project costs"),
            ("manage_project", "Can change the project and stop anybody's jobs in it"),
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """`team/project`; costs a query unless the team was selected along."""
        return f"{self.team.slug}/{self.slug}"
