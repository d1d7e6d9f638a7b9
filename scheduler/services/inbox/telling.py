"""Writing notifications, in the transaction of what they tell of.

One insert for all that a transaction has to tell, and nothing is asked before it: who has muted
what is looked at by the reader and by the task that makes the mails. A key that was told before is
not told again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from scheduler import events
from scheduler.models import Notification
from scheduler.states import NoticeKind


@dataclass(frozen=True, slots=True)
class News:
    """What one person is told. `is_mailed`: its mail is written elsewhere."""

    person_id: int
    kind: NoticeKind
    subject: str
    title: str
    text: str
    path: str
    key: str
    is_mailed: bool = False


def tell(news: Iterable[News], *, now: datetime) -> None:
    """Tell them, each once; call it in the transaction of the change."""
    rows = [
        Notification(
            person_id=one.person_id,
            kind=one.kind,
            subject=one.subject[:40],
            title=one.title[:200],
            text=one.text[:400],
            path=one.path[:200],
            key=one.key[:128],
            at=now,
            mailed_at=now if one.is_mailed else None,
        )
        for one in news
    ]
    if not rows:
        return
    Notification.objects.bulk_create(rows, ignore_conflicts=True)
    for person in {row.person_id for row in rows}:
        events.publish_on_commit(f"user:{person}", "told")
