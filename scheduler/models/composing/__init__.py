"""What jobs start from: templates of teams, and drafts of people."""

from scheduler.models.composing.drafts import JobDraft
from scheduler.models.composing.templates import JobTemplate, TemplateUse, TemplateVersion

__all__ = ["JobDraft", "JobTemplate", "TemplateUse", "TemplateVersion"]
