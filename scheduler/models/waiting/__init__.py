"""What keeps jobs waiting."""

from scheduler.models.waiting.dependencies import Dependency, SetDependency

__all__ = ["Dependency", "SetDependency"]
