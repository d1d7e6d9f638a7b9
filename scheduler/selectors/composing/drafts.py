"""A person's own drafts."""

from __future__ import annotations

from django.db.models import QuerySet

from accounts.errors import NotFound
from accounts.models import User
from scheduler.models import JobDraft


def drafts_of(viewer: User) -> QuerySet[JobDraft]:
    """The newest first; nobody sees another's."""
    return JobDraft.objects.filter(owner=viewer).order_by("-saved_at", "-pk")


def get_draft(viewer: User, pk: int) -> JobDraft:
    """Raises NotFound."""
    draft = drafts_of(viewer).filter(pk=min(pk, 2**63 - 1)).first()
    if draft is None:
        raise NotFound("There is no such draft of yours.")
    return draft
