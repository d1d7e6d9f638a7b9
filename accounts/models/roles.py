"""Roles of the whole organisation, beside those that people have in teams."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class OrganisationRole(models.TextChoices):
    """What somebody may do across all teams; `accounts/policy.py` says it in full."""

    ADMIN = "admin", "Administrator"
    FINANCE = "finance", "Finance"
    OPERATOR = "operator", "Operator"
    AUDITOR = "auditor", "Auditor"


class RoleGrant(models.Model):
    """One person holds one role of the organisation from `confirmed_at` on.

    A grant that waits for a second person (`confirmed_at` empty) gives nothing yet. Taking the
    role deletes the row; the audit trail keeps both.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants"
    )
    role = models.CharField(max_length=16, choices=OrganisationRole.choices)
    given_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    given_at = models.DateTimeField()
    confirmed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    confirmed_at = models.DateTimeField(null=True, blank=True)
    # As of a membership.
    by_groups = models.BooleanField(default=False, db_default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "role"], name="role_grant_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=OrganisationRole.values), name="role_grant_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} as {self.role}"
