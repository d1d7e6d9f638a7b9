"""Teams, who belongs to them in which role, and who was invited."""

from __future__ import annotations

from django.conf import settings
from django.db import models

# Levels of teams, the top one included.
MAX_DEPTH = 4


class Team(models.Model):
    """Who shares GPUs. `name_key` is the confusable-free form that keeps names apart.

    Below a `parent` it is a sub-team: whoever leads the parent leads it too. There are no circles
    and at most `MAX_DEPTH` levels; `accounts/services/teams.py` keeps it so.
    """

    name = models.CharField(max_length=128)
    name_key = models.CharField(max_length=256, unique=True, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    parent = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="children"
    )
    cost_centre = models.ForeignKey(
        "accounts.CostCentre",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="teams",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=~models.Q(parent=models.F("pk")), name="team_not_below_itself"
            )
        ]
        permissions = [
            ("manage_team", "Can change members and projects"),
            ("view_costs", "Can see what the team costs"),
            ("manage_service_accounts", "Can make and end accounts of programs"),
            ("approve_requests", "Can decide on the team's requests"),
            ("delegate_rights", "Can let others act for oneself in the team"),
        ]

    def __str__(self) -> str:
        return self.slug


class Role(models.TextChoices):
    """What a person may do in a team; `accounts/permissions.py` says it in full."""

    MEMBER = "member", "Member"
    LEAD = "lead", "Lead"
    FINANCE = "finance", "Finance"
    OPERATOR = "operator", "Operator"


class Membership(models.Model):
    """One person in one team, in one role."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(auto_now_add=True)
    # Given by the groups that an identity provider tells, which take it back; no hand touched it.
    by_groups = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.team_id} as {self.role}"


class Invitation(models.Model):
    """A single-use way into a team, sent by mail; only the token's hash is kept."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    token_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
