"""How sign-in behaves: no open sign-up, mail in our own words."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.http import HttpRequest


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
