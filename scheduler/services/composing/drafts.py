"""Drafts: what somebody fills in is kept until it is submitted. Nobody else sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler.models import JobDraft
from scheduler.services.errors import Invalid

MOST_DRAFTS = 20
MAX_BYTES = 256 * 1024
MAX_KEY = 128


@transaction.atomic
def save_draft(
    *, actor: User, key: str, fields: Mapping[str, str], now: datetime | None = None
) -> JobDraft:
    """Keep the fields under the form's key; of too many the oldest goes. Raises Invalid."""
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise Invalid("The form has no key; open it again.", field="nonce")
    # A column of text or JSON takes no NUL in PostgreSQL.
    kept = {name: str(value).replace("\x00", "") for name, value in fields.items()}
    if len(json.dumps(kept)) > MAX_BYTES:
        words = f"The draft is larger than {MAX_BYTES // 1024} KiB and is not kept."
        raise Invalid(words, field="script")
    draft, is_new = JobDraft.objects.update_or_create(
        owner=actor,
        key=key,
        defaults={
            "name": kept.get("name", "").strip()[:128],
            "fields": kept,
            "saved_at": now or timezone.now(),
        },
    )
    if is_new:
        newest = JobDraft.objects.filter(owner=actor).values_list("pk", flat=True)[:MOST_DRAFTS]
        JobDraft.objects.filter(owner=actor).exclude(pk__in=list(newest)).delete()
    return draft


def drop_draft(*, actor: User, key: str) -> None:
    """Forget what was kept under a form's key: it has become a job, or is not wanted."""
    JobDraft.objects.filter(owner=actor, key=key).delete()
