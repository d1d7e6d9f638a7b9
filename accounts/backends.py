"""How a session finds its person: the row, and in the same statement what the person may do."""

from __future__ import annotations

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend

from accounts.models import User
from accounts.permissions import with_rights


class PersonBackend(AuthenticationBackend):
    """allauth's, which signs people in by name or address; a request asks it once for its user."""

    def get_user(self, user_id: Any) -> User | None:
        """The person of a session; None once the account is gone or switched off."""
        person = with_rights(user_id)
        return person if person is not None and self.user_can_authenticate(person) else None
