"""Of the story in which all went well: what was asked for beforehand, and what a chat was told."""

from __future__ import annotations

import hashlib

MESSAGE = '{"text": "k1 does little"}'
DIGEST = hashlib.sha256(MESSAGE.encode()).hexdigest()
# It has a rule, a number, a moment and a limit; it was tried again for free.
ASKED = {
    "retries": 1, "user_retries_used": 0, "free_retries_used": 1, "time_limit_s": 300,
    "retry_rules": [{"exit": "75", "max": 1, "wait": "10s"}],
    "finish_by": 450.0, "start_by": 150.0, "owner_id": 1, "end_reason": "completed",
}  # fmt: skip


def asked():
    """What it waited for, a warning for its GPUs, and the news of it on its way to a chat."""
    news = {"id": 1, "person_id": 1, "key": "idle:job:1:1", "at": 160.0, "text": "does little"}
    news["subject"] = "job:1"
    waits = {"id": 1, "webhook_id": 3, "notification_id": 1, "key": "idle:job:1:1"}
    return {
        "awaited": [
            {"id": 9, "name": "k0", "array_index": None, "state": "succeeded", "ended_at": 86.0,
             "started_at": 80.0},
        ],
        "dependency": [{"id": 1, "job_id": 1, "on_id": 9, "kind": "afterok"}],
        "idlewarning": [
            {"id": 1, "attempt_id": 12, "outcome": "ended", "act_at": 220.0, "closed_at": 201.0,
             "kept_until": None},
        ],
        "notification": [news],
        "waitingnews": [{**waits, "due_at": 160.0, "taken_at": 160.5}],
        "webhook": [{"id": 3, "person_id": 1, "created_at": 90.0}],
    }  # fmt: skip


def told_of():
    """A chat hears of a warning, and the job waited for one whose program was done by then."""
    return [
        {"kind": "joined", "at": 90.0, "key": "k1", "before": "k0"},
        {"kind": "exit", "at": 85.0, "job": 9, "fence": 5, "rank": 0, "code": 0},
        {"kind": "chat", "at": 90.0, "webhook": 3},
        {"kind": "message", "at": 161.0, "webhook": 3, "digest": DIGEST, "status": 0},
        {"kind": "message", "at": 163.0, "webhook": 3, "digest": DIGEST, "status": 200},
    ]
