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
from scheduler.services.rows.adding import add_rows
from scheduler.states import NoticeKind

_TOLD = ("person", "kind", "subject", "title", "text", "path", "key", "at", "mailed_at")


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
        (
            one.person_id,
            one.kind,
            one.subject[:40],
            one.title[:200],
            one.text[:400],
            one.path[:200],
            one.key[:128],
            now,
            now if one.is_mailed else None,
        )
        for one in news
    ]
    add_rows(Notification, _TOLD, rows, unless_there=True)
    for person in {row[0] for row in rows}:
        events.publish_on_commit(f"user:{person}", "told")
