"""Local accounts: no open sign-up, letters in our own words that lead to the portal itself."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import ResetPasswordForm
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from accounts.bounds.networks import network_of
from accounts.models import User

logger = logging.getLogger(__name__)


class ResetForm(ResetPasswordForm):
    """Who has no password here signs in elsewhere, and gets none by a letter: who ends their
    account there must have ended it here. Who asks is told what everybody is told."""

    def clean_email(self) -> str:
        """The address; letters with a link go to those of its people who have a password."""
        email = str(super().clean_email())
        found: list[User] = self.users  # type: ignore[has-type]
        self.users = [person for person in found if person.has_usable_password()]
        return email


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

    def get_reset_password_from_key_url(self, key: str) -> str:
        """The link of a letter. Never by the host that was asked: whoever asks chooses that."""
        names = {"uidb36": "UID", "key": "KEY"}
        path = reverse("account_reset_password_from_key", kwargs=names)
        return f"{settings.PUBLIC_URL}{path.replace('UID-KEY', quote(key))}"

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """As allauth's, under the portal's own address. Who asked is told the same whether there
        is such a person or not, and so is whoever asks while the mail server is away."""
        try:
            more = {"public_url": settings.PUBLIC_URL}
            super().send_mail(template_prefix, email, {**context, **more})
        except OSError as error:
            logger.warning("the letter %s was not sent: %s", template_prefix, error)

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        """Home, after signing in again; allauth's would ask for another new password."""
        return reverse("home")

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """By name and address (decision 274); allauth's counts by the host that was asked."""
        login = str(credentials.get("email") or credentials.get("username") or "")
        return f"{login.casefold()}@{network_of(self.get_client_ip(request))}"
