"""What a webhook is told: a delivery for each thing that people were told since its last look."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from scheduler.conf import load_conf
from scheduler.models import Delivery, Notification, Webhook
from scheduler.states import NoticeKind

# News are written in transactions that end in another order than they began: looked at anew for so
# long. None takes longer, and what was taken before is not taken again.
OVERLAP = timedelta(minutes=10)
# What people are told of requests names who asks or decides: programs are told that it happened.
_TITLES: Mapping[str, str] = {
    NoticeKind.REQUEST_WAITING: "A request waits for a decision",
    NoticeKind.REQUEST_DECIDED: "A request was answered",
}
# Their texts say who cancelled, held, paused, decided or has left, and why.
_NAMING = frozenset(
    {
        *_TITLES,
        NoticeKind.JOB_CANCELLED,
        NoticeKind.JOB_PREEMPTED,
        NoticeKind.JOB_HELD,
        NoticeKind.SCHEDULE_TROUBLE,
    }
)


def since_now(now: datetime) -> datetime:
    """`Webhook.since` for one that is told what happens from now on and nothing of before."""
    return now + OVERLAP


def take_up(hook: Webhook, now: datetime) -> None:
    """A delivery for each thing told, however many people were told it."""
    begin = hook.since - OVERLAP
    # Found from the newest on; before it nothing of interest was written, by what `OVERLAP` says.
    old = Notification.objects.filter(at__lt=begin - OVERLAP).order_by("-id")
    floor = old.values_list("pk", flat=True).first() or 0
    rows = Notification.objects.filter(pk__gt=floor, at__gte=begin, at__lte=now).order_by("id")
    if hook.kinds:
        rows = rows.filter(kind__in=hook.kinds)
    known = set(
        Delivery.objects.filter(webhook=hook, created_at__gte=begin - OVERLAP).values_list(
            "key", flat=True
        )
    )
    fresh: dict[str, Notification] = {}
    for row in rows.iterator(500):
        if row.key not in known:
            fresh.setdefault(row.key, row)
    Delivery.objects.bulk_create(
        (
            Delivery(
                webhook=hook,
                key=row.key,
                kind=row.kind,
                body=_body(row),
                created_at=now,
                not_before=now,
            )
            for row in fresh.values()
        ),
        batch_size=500,
        ignore_conflicts=True,
    )
    # Never back: one that was resumed or changed meanwhile begins later.
    Webhook.objects.filter(pk=hook.pk, since__lt=now).update(since=now)


def _body(row: Notification) -> str:
    """What is sent: no person's name and no address, only what it is about and where it stands."""
    return json.dumps(
        {
            "kind": row.kind,
            "subject": row.subject,
            "title": _TITLES.get(row.kind, row.title),
            "text": "" if row.kind in _NAMING else row.text,
            "url": f"{load_conf().public_url}{row.path}",
            "at": row.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        ensure_ascii=False,
        sort_keys=True,
    )
