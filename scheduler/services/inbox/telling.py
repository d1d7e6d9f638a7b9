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

_TOLD = ("person", "kind", "subject", "title", "text", "path", "key", "at", "mailed_at", "asked")


@dataclass(frozen=True, slots=True)
class News:
    """What one person is told. `is_mailed`: its mail is written elsewhere. `asked`: whether the job
    it is about asks for it; None where the person's settings hold. `for_others`: the text for who
    watches a job of another, where its owner's says what only an owner can do."""

    person_id: int
    kind: NoticeKind
    subject: str
    title: str
    text: str
    path: str
    key: str
    is_mailed: bool = False
    asked: bool | None = None
    for_others: str | None = None


def tell(news: Iterable[News], *, now: datetime) -> None:
    """Tell them, each once; call it in the transaction of the change."""
    # The first with each key: of an array each task that fails brings the same again.
    first: dict[tuple[int, str], News] = {}
    for one in news:
        first.setdefault((one.person_id, one.key[:128]), one)
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
            one.asked,
        )
        for one in first.values()
    ]
    add_rows(Notification, _TOLD, rows, unless_there=True)
    for person in {row[0] for row in rows}:
        events.publish_on_commit(f"user:{person}", "told")
