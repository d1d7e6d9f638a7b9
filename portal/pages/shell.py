"""What every page's frame needs."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from portal.forms.filters import WatchedQuery
from portal.pages.scope.narrowing import shown_scope
from scheduler.selectors.inbox import count_unread
from scheduler.selectors.requesting import count_waiting_for

THEMES = ("system", "light", "dark")
THEME_COOKIE = "theme"
KEYS_COOKIE = "keys"


def shell(request: HttpRequest) -> dict[str, object]:
    """`keys`: `off` when single-key shortcuts are switched off. `theme`: light, dark, or empty to
    follow the system. `approvals_waiting`: how many requests wait for the viewer, asked when a
    template says it; no query for who decides on none. `unread`: how many notifications nobody has
    read yet. `scope_now`: what the page is narrowed to, and what links to others append.
    `never_read`: parameters that the page does not know.
    """
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "keys": "off" if request.COOKIES.get(KEYS_COOKIE) == "off" else "on",
        "theme": theme if theme in THEMES[1:] else "",
        "approvals_waiting": SimpleLazyObject(lambda: _waiting(request)),
        "unread": SimpleLazyObject(lambda: _unread(request)),
        "scope_now": SimpleLazyObject(lambda: shown_scope(request)),
        "never_read": SimpleLazyObject(lambda: _never_read(request)),
    }


def _waiting(request: HttpRequest) -> int:
    user = getattr(request, "user", None)
    return count_waiting_for(user) if isinstance(user, User) else 0


def _unread(request: HttpRequest) -> int:
    user = getattr(request, "user", None)
    return count_unread(user) if isinstance(user, User) else 0


def _never_read(request: HttpRequest) -> list[str]:
    return request.GET.never_read() if isinstance(request.GET, WatchedQuery) else []
