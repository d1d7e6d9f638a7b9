"""Which secrets there are, never what they hold."""

from scheduler.selectors.secrets.visible import get_visible_secret, visible_secrets

__all__ = ["get_visible_secret", "visible_secrets"]
