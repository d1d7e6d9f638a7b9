"""Drafts: what somebody fills in is kept until it is submitted. Nobody else sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.models import User
from scheduler.models import JobDraft, SubmitKey
from scheduler.services.errors import Conflict, Invalid
from scheduler.services.jobs import FORM_KEY

MOST_DRAFTS = 20
MAX_BYTES = 256 * 1024
MAX_KEY = 128
# Two calls of one page may come out of turn by this much. Who comes back to a form that was sent,
# and goes on with it, takes longer.
_LATE = timedelta(minutes=1)


@transaction.atomic
def save_draft(
    *, actor: User, key: str, fields: Mapping[str, str], now: datetime | None = None
) -> JobDraft:
    """Keep the fields under the form's key; of too many the oldest goes. Raises Invalid, and
    Conflict for a form that was sent just now: what comes late is no draft any more."""
    if not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        raise Invalid("The form has no key; open it again.", field="nonce")
    # A column of text or JSON takes no NUL in PostgreSQL.
    kept = {name: str(value).replace("\x00", "") for name, value in fields.items()}
    if len(json.dumps(kept)) > MAX_BYTES:
        words = f"The draft is larger than {MAX_BYTES // 1024} KiB and is not kept."
        raise Invalid(words, field="script")
    now = now or timezone.now()
    sent = SubmitKey.objects.filter(user=actor, key=submit_key(key), created_at__gt=now - _LATE)
    if sent.exists():
        raise Conflict("The form was sent just now: it is a job, and no draft.")
    draft, is_new = JobDraft.objects.update_or_create(
        owner=actor,
        key=key,
        defaults={
            "name": kept.get("name", "").strip()[:128],
            "fields": kept,
            "saved_at": now,
        },
    )
    if is_new:
        newest = JobDraft.objects.filter(owner=actor).values_list("pk", flat=True)[:MOST_DRAFTS]
        JobDraft.objects.filter(owner=actor).exclude(pk__in=list(newest)).delete()
    return draft


def submit_key(key: str) -> str:
    """What a submit of a form is remembered under."""
    return f"{FORM_KEY}{key}"


def drop_draft(*, actor: User, key: str) -> None:
    """Forget what was kept under a form's key: it has become a job, or is not wanted."""
    JobDraft.objects.filter(owner=actor, key=key).delete()
