"""What every page's frame needs."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from accounts.models import User
from accounts.permissions import can, in_own_right, team_ids_acted_for, team_ids_for
from portal.forms.filters import WatchedQuery
from portal.pages.scope.narrowing import shown_scope
from scheduler.selectors.inbox import Calls, calls_for

THEMES = ("system", "light", "dark")
THEME_COOKIE = "theme"
# How a browser behaves, by cookie; the first choice is the usual one.
HABITS = {
    "keys": ("on", "off"),
    "updates": ("live", "minute", "manual"),
    "rail": ("wide", "narrow"),
    # Whose clock pages go by; portal.serving.zones reads it.
    "times": ("browser", "utc"),
}


def shell(request: HttpRequest) -> dict[str, object]:
    """`keys`, `updates`, `rail` and `times`: see HABITS. `time_zone`: in which the page says times.
    `theme`: light, dark, or empty to follow the system. `calls`: what waits for the viewer
    (`Calls`); `unread` and `demo_here` of it: how many notifications nobody has read yet, and
    whether a demonstration is among what is shown; they are asked for when a template says one of
    them. `scope_now`: what the page is narrowed to, and what links to others append.
    `never_read`: parameters that the page does not know. `odd`: what is wrong with the values of
    others. `operates`: looks after the cluster.
    `sees_costs`, `sees_books`, `approves`: whether the rail names these pages to the viewer; the
    pages themselves answer everybody. `offices`: pages about people, rights and what everybody is
    told, for those who have them.
    """
    theme = request.COOKIES.get(THEME_COOKIE, "")
    calls = SimpleLazyObject(lambda: _calls(request))
    return {
        **{name: _habit(request, name) for name in HABITS},
        "theme": theme if theme in THEMES[1:] else "",
        "time_zone": timezone.get_current_timezone_name(),
        "calls": calls,
        "unread": SimpleLazyObject(lambda: calls.unread),
        "demo_here": SimpleLazyObject(lambda: calls.demo),
        "scope_now": SimpleLazyObject(lambda: shown_scope(request)),
        "operates": SimpleLazyObject(lambda: _operates(request)),
        "sees_costs": SimpleLazyObject(lambda: _asked(request, _sees_costs)),
        "sees_books": SimpleLazyObject(lambda: _asked(request, _sees_books)),
        "approves": SimpleLazyObject(lambda: _asked(request, _approves)),
        "offices": SimpleLazyObject(lambda: _offices(request)),
        "never_read": SimpleLazyObject(lambda: _never_read(request)),
        "odd": SimpleLazyObject(lambda: _odd(request)),
    }


def _habit(request: HttpRequest, name: str) -> str:
    chosen = request.COOKIES.get(name, "")
    return chosen if chosen in HABITS[name] else HABITS[name][0]


def _asked(request: HttpRequest, about: Callable[[User], bool]) -> bool:
    """No statement beside the viewer's rights, which every page reads."""
    user = getattr(request, "user", None)
    return isinstance(user, User) and about(user)


def _operates(request: HttpRequest) -> bool:
    return _asked(request, lambda user: in_own_right(user, "operate", None))


def _sees_costs(user: User) -> bool:
    return team_ids_for(user) != frozenset()


def _sees_books(user: User) -> bool:
    if can(user, "read_books", None) or can(user, "read_usage", None):
        return True
    return team_ids_for(user, "view_costs") != frozenset()


def _approves(user: User) -> bool:
    if any(can(user, action, None) for action in ("decide_requests", "decide_spending", "operate")):
        return True
    teams = (team_ids_for, team_ids_acted_for)
    return any(of_whom(user, "approve_requests") != frozenset() for of_whom in teams)


def _reads_audit(user: User) -> bool:
    if can(user, "read_audit", None) or can(user, "operate", None):
        return True
    return team_ids_for(user, "manage_team") != frozenset()


def _administers(user: User) -> bool:
    return can(user, "administer_cluster", None)


# What menus name to those whom it is open to: address, icon, word, and whether it is.
_OFFICES: tuple[tuple[str, str, str, Callable[[User], bool]], ...] = (
    ("users:list", "team", "People", _administers),
    ("roles:list", "key", "Roles", lambda user: can(user, "read_settings", None)),
    ("audit:list", "report", "Audit", _reads_audit),
    ("announcements:list", "bell", "Announcements", lambda user: can(user, "operate", None)),
    ("webhooks:list", "link", "Webhooks", _administers),
    ("preview", "search", "View as a role", _administers),
)


def _offices(request: HttpRequest) -> list[tuple[str, str, str]]:
    return [
        (route, glyph, word) for route, glyph, word, is_open in _OFFICES if _asked(request, is_open)
    ]


def _calls(request: HttpRequest) -> Calls:
    user = getattr(request, "user", None)
    return calls_for(user) if isinstance(user, User) else Calls()


def _never_read(request: HttpRequest) -> list[str]:
    return request.GET.never_read() if isinstance(request.GET, WatchedQuery) else []


def _odd(request: HttpRequest) -> list[str]:
    return request.GET.odd if isinstance(request.GET, WatchedQuery) else []
