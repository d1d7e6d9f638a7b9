"""Whether the session a socket was opened with is still good."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import cast

from django.conf import settings
from django.http import HttpRequest

from accounts.adapter import person_of
from accounts.models import User
from portal.previews import seen_as


def user_of_session(session_key: str | None) -> User | None:
    """The person of a stored session, read afresh; None once it ended or the password changed."""
    if not session_key:
        return None
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = person_of(cast(HttpRequest, SimpleNamespace(session=store)))
    if not user.is_authenticated or not user.is_active:
        return None
    return seen_as(user, store)
