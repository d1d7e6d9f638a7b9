"""Who is asking: every request gets an id, and what it changes is recorded with it."""

from __future__ import annotations

import re
import uuid
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from accounts.origin import enter_origin, leave_origin

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}", re.ASCII)


def request_id_of(request: Any) -> str:
    """The caller's X-Request-ID when it is a plain one, else a new one; kept on the request.

    Takes a Django request, one of the REST framework, or None.
    """
    if request is None:
        return uuid.uuid4().hex
    inner: Any = getattr(request, "_request", request)
    known: str = getattr(inner, "request_id", "")
    if not known:
        sent = inner.META.get("HTTP_X_REQUEST_ID", "")
        known = sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex
        inner.request_id = known
    return known


def address_of(request: Any) -> str:
    """The caller's address as the server tells it (behind a proxy that it trusts, what that says);
    empty where it tells none."""
    return request.META.get("REMOTE_ADDR") or ""


class OriginMiddleware(MiddlewareMixin):
    """A part of `portal.middleware.together`: says whose request is being served."""

    def process_request(self, request: HttpRequest) -> None:
        """From here on what is recorded names this request."""
        told = request.META.get("HTTP_USER_AGENT", "")
        enter_origin(request_id_of(request), address_of(request), told)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """The request is served."""
        leave_origin()
        return response
