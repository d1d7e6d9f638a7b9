"""What people's groups elsewhere give them here."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models.roles import OrganisationRole
from accounts.models.teams import Role

# Never the operator of a team, who runs the whole cluster, and never an administrator.
TEAM_ROLES = (Role.LEAD, Role.MEMBER, Role.FINANCE)
ORGANISATION_ROLES = (
    OrganisationRole.OPERATOR,
    OrganisationRole.FINANCE,
    OrganisationRole.AUDITOR,
)


class GroupRule(models.Model):
    """Who is in `group` at the identity provider has `role` in `team`, or (no team) in the whole
    organisation, from the next sign-in on."""

    group = models.CharField(max_length=255)
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.CASCADE, null=True, related_name="group_rules"
    )
    role = models.CharField(max_length=16)
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    added_at = models.DateTimeField()

    class Meta:
        ordering = ["group", "team__slug", "role"]
        constraints = [
            models.UniqueConstraint(
                fields=["group", "team"], name="group_rule_once_a_team", condition=~Q(team=None)
            ),
            models.UniqueConstraint(
                fields=["group", "role"], name="group_rule_once", condition=Q(team=None)
            ),
            models.CheckConstraint(
                condition=Q(team__isnull=False, role__in=TEAM_ROLES)
                | Q(team__isnull=True, role__in=ORGANISATION_ROLES),
                name="group_rule_role_known",
            ),
        ]

    def __str__(self) -> str:
        where = self.team.slug if self.team else "the organisation"
        return f"{self.group}: {self.role} in {where}"
