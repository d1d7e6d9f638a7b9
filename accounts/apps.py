"""The room's entry in Django, and what it does after migrations."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    """Who, and on whose bill."""

    name = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Hear of migrations: a new version may have changed the table of rights."""
        post_migrate.connect(_align_rights, sender=self)


def _align_rights(using: str, plan: Any = (), **more: Any) -> None:
    # A flush says post_migrate too, without a plan: then there is nothing to bring in line.
    from accounts.granting import align_rights
    from accounts.models import Team

    if plan and Team.objects.using(using).exists():
        align_rights()
