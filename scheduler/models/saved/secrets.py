"""Values that programs are given and nobody reads, and whose a job gets."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from scheduler.models.jobs import Job


class Secret(models.Model):
    """One named value; either `owner` or `project` has it.

    `sealed` is what `services/secrets/cipher.py` makes of it; nothing that people see reads it.
    `used_at`: when a node was last handed it.
    """

    name = models.SlugField(max_length=63)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="secrets"
    )
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, null=True, related_name="secrets"
    )
    sealed = models.BinaryField()
    set_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField()
    set_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(owner__isnull=False, project__isnull=True)
                | models.Q(owner__isnull=True, project__isnull=False),
                name="secret_has_one_keeper",
            ),
            models.UniqueConstraint(
                fields=["owner", "name"],
                condition=models.Q(project=None),
                name="secret_of_owner_once",
            ),
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=models.Q(owner=None),
                name="secret_of_project_once",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class MeantSecrets(models.Model):
    """Whose secrets a job gets, as its submit found them: names in `own` are its owner's, the
    others of its spec its project's.
    """

    job = models.OneToOneField(Job, on_delete=models.CASCADE, primary_key=True, related_name="+")
    own = models.JSONField(default=list)
