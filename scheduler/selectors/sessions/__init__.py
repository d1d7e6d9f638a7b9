"""Interactive sessions, for a viewer."""

from scheduler.selectors.sessions.cards import (
    SessionCard,
    get_visible_session,
    session_cards,
    visible_sessions,
)

__all__ = ["SessionCard", "get_visible_session", "session_cards", "visible_sessions"]
