"""What every page's frame needs."""

from __future__ import annotations

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from accounts.permissions import in_own_right
from portal.forms.filters import WatchedQuery
from portal.pages.scope.narrowing import shown_scope
from scheduler.selectors.inbox import Calls, calls_for

THEMES = ("system", "light", "dark")
THEME_COOKIE = "theme"
KEYS_COOKIE = "keys"


def shell(request: HttpRequest) -> dict[str, object]:
    """`keys`: `off` when single-key shortcuts are switched off. `theme`: light, dark, or empty to
    follow the system. `approvals_waiting`: how many requests wait for the viewer; `unread`: how
    many notifications nobody has read yet; `demo_here`: whether a demonstration is among what is
    shown; they are asked for when a template says one of them.
    `scope_now`: what the page is narrowed to, and what links to others append.
    `never_read`: parameters that the page does not know. `operates`: looks after the cluster.
    """
    theme = request.COOKIES.get(THEME_COOKIE, "")
    calls = SimpleLazyObject(lambda: _calls(request))
    return {
        "keys": "off" if request.COOKIES.get(KEYS_COOKIE) == "off" else "on",
        "theme": theme if theme in THEMES[1:] else "",
        "approvals_waiting": SimpleLazyObject(lambda: calls.approvals),
        "unread": SimpleLazyObject(lambda: calls.unread),
        "demo_here": SimpleLazyObject(lambda: calls.demo),
        "scope_now": SimpleLazyObject(lambda: shown_scope(request)),
        "operates": SimpleLazyObject(lambda: _operates(request)),
        "never_read": SimpleLazyObject(lambda: _never_read(request)),
    }


def _operates(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return isinstance(user, User) and in_own_right(user, "operate", None)


def _calls(request: HttpRequest) -> Calls:
    user = getattr(request, "user", None)
    return calls_for(user) if isinstance(user, User) else Calls()


def _never_read(request: HttpRequest) -> list[str]:
    return request.GET.never_read() if isinstance(request.GET, WatchedQuery) else []
