"""Who signs in."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower


class User(AbstractUser):
    """A person. Custom from day one, so that it can grow without a painful migration."""

    first_name = None  # type: ignore[assignment]
    last_name = None  # type: ignore[assignment]
    display_name = models.CharField(max_length=128, blank=True)
    email = models.EmailField("email address", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                Lower("email"),
                name="user_email_unique",
                condition=~models.Q(email=""),
            ),
            models.UniqueConstraint(Lower("username"), name="user_username_unique"),
        ]

    def get_full_name(self) -> str:
        """The name shown to others."""
        return self.display_name or self.username

    def get_short_name(self) -> str:
        return self.display_name or self.username
