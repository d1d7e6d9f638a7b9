"""Interactive sessions: their rows, who comes in, and when nobody has for too long."""

from scheduler.services.sessions.entering import (
    Entry,
    entry_of,
    issue_ticket,
    may_connect,
    prune_passes,
    redeem_ticket,
)
from scheduler.services.sessions.idling import keep_session, note_activity, stop_idle_sessions
from scheduler.services.sessions.limits import refuse_session

__all__ = [
    "Entry",
    "entry_of",
    "issue_ticket",
    "keep_session",
    "may_connect",
    "note_activity",
    "prune_passes",
    "redeem_ticket",
    "refuse_session",
    "stop_idle_sessions",
]
