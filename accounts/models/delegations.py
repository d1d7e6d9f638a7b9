"""Who acts in whose place, in what, from when until when."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from accounts.models.teams import Team


class DelegationScope(models.TextChoices):
    """What a delegation is for; `accounts/policy.py:SCOPES` names the actions."""

    APPROVE_REQUESTS = "approve_requests", "Decide on requests"
    MANAGE_TEAM = "manage_team", "Manage people and projects"


class Delegation(models.Model):
    """`deputy` acts for `giver` from `starts_at` until right before `ends_at`.

    It gives what the giver may do in their own right at that moment and nothing that others let
    the giver do. An empty team means wherever the giver has the right.
    """

    giver = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="delegations_given"
    )
    deputy = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="delegations_held"
    )
    scope = models.CharField(max_length=32, choices=DelegationScope.choices)
    team = models.ForeignKey(
        Team, on_delete=models.CASCADE, null=True, blank=True, related_name="delegations"
    )
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=255, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_early_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-starts_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ends_at__gt=models.F("starts_at")), name="delegation_has_length"
            ),
            models.CheckConstraint(
                condition=~models.Q(giver=models.F("deputy")), name="delegation_of_two"
            ),
            models.CheckConstraint(
                condition=models.Q(scope__in=DelegationScope.values),
                name="delegation_scope_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.deputy_id} for {self.giver_id}: {self.scope}"
