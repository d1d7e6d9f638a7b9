"""Who signs in."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower


class UserKind(models.TextChoices):
    """Who is behind an account."""

    PERSON = "person", "Person"
    SERVICE = "service", "Service account"


class User(AbstractUser):
    """A person, or (`kind` service) an account of programs that belongs to `service_team`.

    A service account has no password and no mail address; its only way in is a token. Custom from
    day one, so that it can grow without a painful migration.
    """

    first_name = None  # type: ignore[assignment]
    last_name = None  # type: ignore[assignment]
    display_name = models.CharField(max_length=128, blank=True)
    email = models.EmailField("email address", blank=True)
    kind = models.CharField(max_length=8, choices=UserKind.choices, default=UserKind.PERSON)
    service_team = models.ForeignKey(
        "accounts.Team",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="service_accounts",
    )
    # What the person has narrowed pages to, `team:…` or `project:…`; none is everything.
    scope = models.CharField(max_length=160, null=True, blank=True)
    # The columns of the table of jobs, joined by commas; none is the usual ones.
    job_columns = models.CharField(max_length=200, null=True, blank=True)

    # A preview stands for nobody: the groups whose rights it shows. None: somebody real.
    preview_groups: frozenset[str] | None = None
    # Who comes with a token that is bound to a project holds rights there and nowhere else.
    bound_project: int | None = None
    # Who comes with a token without `logs:read` is not shown what lies inside jobs.
    reads_logs: bool = True

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Lower("email"),
                name="user_email_unique",
                condition=~models.Q(email=""),
            ),
            models.UniqueConstraint(Lower("username"), name="user_username_unique"),
            models.CheckConstraint(
                condition=models.Q(kind="person", service_team__isnull=True)
                | models.Q(
                    kind="service", service_team__isnull=False, email="", is_superuser=False
                ),
                name="service_account_of_a_team",
            ),
        ]

    @property
    def is_preview(self) -> bool:
        """Whether an administrator looks through a role's eyes, and nobody is there."""
        return self.preview_groups is not None

    @property
    def is_service(self) -> bool:
        """Whether programs act under this name, and no person."""
        return self.kind == UserKind.SERVICE

    def get_full_name(self) -> str:
        """The name shown to others."""
        return self.display_name or self.username

    def get_short_name(self) -> str:
        return self.display_name or self.username
