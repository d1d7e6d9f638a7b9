"""The preview of a role: kept in the session, put in the place of the user, and read-only.

1. It begins by a form of an administrator and is on record; it ends by a click, by signing out, or
   after half an hour.
2. While it lasts, whoever asks for the request's user, of pages, API and sockets, gets the role's
   stand-in, who is in no table and owns nothing.
3. Every method but the safe ones is refused before any view runs; a safe one that would record
   something, such as an export, is refused by `record`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject

from accounts.adapter import person_of
from accounts.models import User
from accounts.services import Preview, end_preview, kept_preview, preview_as

KEY = "preview"
LASTS = timedelta(minutes=30)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_REFUSED = "This is a preview of a role: nothing can be changed. End the preview to go on."


class PreviewMiddleware(MiddlewareMixin):
    """A part of `portal.middleware.together`, right behind the one that knows the user."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        """Put the stand-in before the user; refuse what is not safe."""
        if settings.SESSION_COOKIE_NAME not in request.COOKIES:
            return None
        _put_before(request)
        if request.method in _SAFE or KEY not in request.session:
            return None
        if request.path == reverse("account_logout"):
            stop_preview(request, "signed out")
            return None
        # Also when its time is just over: the button was pressed on a page of the preview.
        bool(request.user.is_authenticated)
        if request.path == reverse("preview_end"):
            return None
        if not request.path.startswith("/api/"):
            raise PermissionDenied(_REFUSED)
        told = {"title": "Forbidden", "status": 403, "code": "preview", "detail": _REFUSED}
        return JsonResponse(
            {"type": "about:blank", **told}, status=403, content_type="application/problem+json"
        )


def look_again(request: HttpRequest) -> None:
    """Let a request that lasts ask anew whose session it is: it may have ended meanwhile, and the
    person's account or rights with it."""
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return
    store = import_module(settings.SESSION_ENGINE).SessionStore
    request.session = store(request.session.session_key)
    request.user = SimpleLazyObject(lambda: person_of(request))  # type: ignore[assignment]
    _put_before(request)


def real_user_of(request: HttpRequest) -> User | AnonymousUser:
    """Who is signed in, whatever is shown."""
    found: User | AnonymousUser = getattr(request, "real_user", request.user)
    return found


def start_preview(request: HttpRequest, preview: Preview) -> None:
    """From the next request on."""
    request.session[KEY] = {
        "role": preview.role,
        "team": preview.team.pk if preview.team else None,
        "until": preview.until.timestamp(),
    }


def stop_preview(request: HttpRequest, reason: str) -> None:
    """The person is themselves again; on record where there was a preview."""
    preview, person = preview_of(request.session), real_user_of(request)
    request.session.pop(KEY, None)
    if preview is not None and isinstance(person, User):
        end_preview(actor=person, preview=preview, reason=reason)


def preview_of(session: Any) -> Preview | None:
    """What the session shows; also when its time is over. None: nothing, or its team is gone."""
    kept = session.get(KEY)
    if not isinstance(kept, dict):
        return None
    return kept_preview(kept["role"], kept["team"], datetime.fromtimestamp(kept["until"], UTC))


def seen_as(user: User, session: Any) -> User:
    """The stand-in while an administrator's preview lasts, else the user."""
    if KEY not in session or not user.is_superuser:
        return user
    preview = preview_of(session)
    if preview is None or preview.until <= timezone.now():
        return user
    stand_in = preview_as(preview)
    stand_in.preview_until = preview.until  # type: ignore[attr-defined]
    return stand_in


def _put_before(request: HttpRequest) -> None:
    """Looked up by whoever asks first: files and pings ask for no user."""
    request.real_user = request.user  # type: ignore[attr-defined]
    request.user = SimpleLazyObject(lambda: _user_of(request))  # type: ignore[assignment]


def _user_of(request: HttpRequest) -> Any:
    user = request.real_user  # type: ignore[attr-defined]
    if KEY not in request.session or not user.is_authenticated:
        return user
    found = seen_as(user, request.session)
    if found is user:
        stop_preview(request, "its time ran out")
    return found
