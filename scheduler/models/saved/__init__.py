"""What people keep of how they look at things."""

from scheduler.models.saved.scenarios import Scenario
from scheduler.models.saved.views import SavedView

__all__ = ["SavedView", "Scenario"]
