"""GPUs that do little: the rules about them, and who was warned."""

from scheduler.models.idling.rules import IdleRule, IdleWarning

__all__ = ["IdleRule", "IdleWarning"]
