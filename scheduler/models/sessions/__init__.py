"""Interactive sessions and who may come in."""

from scheduler.models.sessions.sessions import Session, SessionPass

__all__ = ["Session", "SessionPass"]
