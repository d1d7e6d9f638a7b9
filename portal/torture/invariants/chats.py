"""What chats are told: I33."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator

from portal.torture.history import Evidence
from scheduler.invariants.rows import Row

# News that were told, or that are due, and so long after that not on their way: a look comes each
# half minute, where somebody is there to look.
_LATE_S = 120.0
# Who was at work while clocks were put forward may have committed with a moment of before.
_STEPPED_S = 30.0
_MOST_TRIES = 8


def chats_are_told_once(evidence: Evidence) -> Iterator[str]:
    """I33: a chat is told each piece of news, once; what is called sent was taken there; no call is
    made that was not counted before, and none more often than promised."""
    for chat in evidence.told("chat"):
        pk = chat["webhook"]
        calls = [said for said in evidence.told("message") if said["webhook"] == pk]
        mine = [row for row in evidence.rows("delivery") if row["webhook_id"] == pk]
        waiting = [row for row in evidence.rows("waitingnews") if row["webhook_id"] == pk]
        yield from _arrived(mine, calls)
        yield from _listed_once(pk, mine, waiting, _about_what_is_gone(evidence))
        yield from _none_is_left_out(evidence, pk, waiting)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _arrived(mine: list[Row], calls: list[Row]) -> Iterator[str]:
    taken = {call["digest"] for call in calls if call["status"] == 200}
    made = Counter(call["digest"] for call in calls)
    allowed: Counter[str] = Counter()
    for row in mine:
        allowed[_digest(row["body"])] += row["tries"]
        missing = row["sent_at"] is not None and _digest(row["body"]) not in taken
        yield f"message {row['id']} is called sent and did not arrive" if missing else ""
        yield f"message {row['id']} was tried {row['tries']} times" if _is_over(row) else ""
    for digest, count in made.items():
        yield "" if count <= allowed[digest] else f"a message came {count} times, uncounted"


def _is_over(row: Row) -> bool:
    return bool(row["tries"] > _MOST_TRIES)


def _about_what_is_gone(evidence: Evidence) -> set[int]:
    """News of schedules that were deleted: what cannot be opened any more may be left unsaid."""
    there = {f"schedule:{row['id']}" for row in evidence.rows("jobschedule")}
    return {
        news["id"]
        for news in evidence.rows("notification")
        if news["subject"].startswith("schedule:") and news["subject"] not in there
    }


def _listed_once(pk: int, mine: list[Row], waiting: list[Row], gone: set[int]) -> Iterator[str]:
    """Each piece of news waits once, and what was taken is what messages list, in number."""
    for key, count in Counter(row["key"] for row in waiting).items():
        yield f"chat {pk} is told {key} {count} times" if count > 1 else ""
    listed = sum(_pieces(row["body"]) for row in mine)
    taken = [row["notification_id"] for row in waiting if row["taken_at"] is not None]
    least = sum(news not in gone for news in taken)
    words = f"messages to chat {pk} list {listed} pieces of news, {len(taken)} were taken"
    yield "" if least <= listed <= len(taken) else words


def _pieces(body: str) -> int:
    heading = str(json.loads(body)["text"]).partition(" pieces of news from Trainyard:")
    return int(heading[0]) if heading[1] and heading[0].isdigit() else 1


def _none_is_left_out(evidence: Evidence, pk: int, waiting: list[Row]) -> Iterator[str]:
    channel = evidence.by_id("webhook")[pk]
    known, until = {row["key"] for row in waiting}, evidence.rules.get("ended_at", 0.0) - _LATE_S
    steps = [at for at, _ in evidence.rules.get("steps", ())]
    for news in evidence.rows("notification"):
        at = evidence.real(news["at"])
        is_theirs = news["person_id"] == channel["person_id"] and news["at"] > channel["created_at"]
        # One's own submit of a newer job of a group is no news for oneself.
        is_theirs &= news.get("asked") is not False
        if is_theirs and at < until and not any(0 <= step - at < _STEPPED_S for step in steps):
            words = f"chat {pk} was never told {news['key']}"
            yield "" if news["key"] in known else words
    for row in waiting:
        is_late = row["taken_at"] is None and evidence.real(row["due_at"]) < until
        yield f"news {row['key']} for chat {pk} are due and nobody sends them" if is_late else ""
