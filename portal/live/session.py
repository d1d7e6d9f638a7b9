"""Whether the session a socket was opened with is still good."""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from types import SimpleNamespace
from typing import cast

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest

from accounts.adapter import SessionStore, person_of
from accounts.models import User
from portal.previews import seen_as


def user_of_session(session_key: str | None) -> User | None:
    """The person of a stored session, read afresh; None once it ended or the password changed."""
    return _read(session_key)[0]


def keep_signed_in(session_key: str, *, now: datetime) -> None:
    """Somebody does something outside the portal's pages: they stay signed in as if on one."""
    user, store = _read(session_key)
    if user is not None and isinstance(store, SessionStore):
        store.note_activity(now)


def _read(session_key: str | None) -> tuple[User | None, SessionBase | None]:
    if not session_key:
        return None, None
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = person_of(cast(HttpRequest, SimpleNamespace(session=store)))
    if not user.is_authenticated or not user.is_active:
        return None, None
    return seen_as(user, store), store
