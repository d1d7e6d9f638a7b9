"""Secrets that jobs get as files."""

from scheduler.services.secrets.handing import hand_secrets, note_meant, secret_problems
from scheduler.services.secrets.keeping import delete_secret, set_secret

__all__ = ["delete_secret", "hand_secrets", "note_meant", "secret_problems", "set_secret"]
