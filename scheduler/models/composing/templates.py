"""Jobs to start from: a team's templates, each in versions that never change."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

_PERSON = settings.AUTH_USER_MODEL


class JobTemplate(models.Model):
    """A template by its name; what it says stands in its versions, `latest` being the newest.

    Members of the team use it, everybody if it `is_public`. A retired one starts no new jobs.
    """

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, related_name="templates")
    slug = models.SlugField(max_length=96, unique=True)
    name = models.CharField(max_length=128)
    description = models.TextField(max_length=4096, blank=True)
    is_public = models.BooleanField(default=False)
    latest = models.PositiveIntegerField(default=1)
    forked_from = models.ForeignKey(
        "TemplateVersion", on_delete=models.SET_NULL, null=True, blank=True, related_name="forks"
    )
    created_by = models.ForeignKey(_PERSON, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)
    # For whom `get_visible_template` has found this very object; no column.
    seen_by: object = None

    class Meta:
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.slug


class TemplateVersion(models.Model):
    """What a template said once: fields of a spec, and which of them a job may change how far.

    `document` is as `JobSpec.document`, fields that are left to the job missing; `rules` is as
    `scheduler.spec.rules.read_rules` gives it.
    """

    template = models.ForeignKey(JobTemplate, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    rules = models.JSONField(default=dict, blank=True)
    note = models.CharField(max_length=255, blank=True)
    written_by = models.ForeignKey(_PERSON, on_delete=models.PROTECT, related_name="+")
    written_at = models.DateTimeField()

    class Meta:
        ordering = ["template", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["template", "number"], name="template_version_once")
        ]

    def __str__(self) -> str:
        return f"{self.template_id}@{self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises TypeError for a row that is there: jobs name the version they came from."""
        if not self._state.adding:
            raise TypeError("A version of a template never changes; write another one.")
        super().save(*args, **kwargs)

    @property
    def reference(self) -> str:
        """`slug@3`, as page, API and command line take it."""
        return f"{self.template.slug}@{self.number}"


class TemplateUse(models.Model):
    """A job that was made from a version; of an array its first task."""

    job = models.OneToOneField(
        "Job", on_delete=models.CASCADE, primary_key=True, related_name="template_use"
    )
    version = models.ForeignKey(TemplateVersion, on_delete=models.CASCADE, related_name="uses")
    used_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"job {self.job_id} from {self.version_id}"
