"""How sign-in behaves: no open sign-up, mail in our own words; how a session finds its person."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from django.conf import settings
from django.http import HttpRequest

from accounts.models import User
from accounts.permissions import with_rights


class AccountAdapter(DefaultAccountAdapter):
    """Local accounts; people come in by invitation only."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Never: an open sign-up would let strangers see how busy the cluster is."""
        return False

    def get_from_email(self) -> str:
        """The sender of password mails."""
        return str(settings.DEFAULT_FROM_EMAIL)

    def format_email_subject(self, subject: str) -> str:
        """One line, under our name."""
        return f"Trainyard: {' '.join(subject.split())}"


class PersonBackend(AuthenticationBackend):
    """allauth's, which signs people in by name or address; a request asks it once for its user."""

    def get_user(self, user_id: Any) -> User | None:
        """The person of a session, and in the same statement what the person may do; None once
        the account is gone or switched off."""
        person = with_rights(user_id)
        return person if person is not None and self.user_can_authenticate(person) else None
