"""Pages for what went wrong."""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Sequence

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader

from portal.outages import BEHIND, is_database_away, is_database_behind, is_exhausted

logger = logging.getLogger(__name__)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400, or 413 when more was sent than the server reads."""
    if isinstance(exception, RequestDataTooBig):
        return _answer(request, 413, "What was sent is larger than the server accepts.")
    return _answer(request, 400, "The request could not be understood.")


def not_text(request: HttpRequest, field: str) -> HttpResponse:
    """400 for a field with the character that no text may have."""
    return _answer(request, 400, f"{field}: take the null character out of it.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403, with the reason a service gave."""
    detail = str(exception) if isinstance(exception, PermissionDenied) else ""
    return _answer(request, 403, detail or "Your role does not allow this.")


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403 for a form without its token, or from another site."""
    return _answer(
        request,
        403,
        "The form was too old or came from another site. Go back, load the page again and resend.",
    )


def wrong_method(request: HttpRequest, allowed: Sequence[str]) -> HttpResponse:
    """405, with the methods that the address takes."""
    answer = _answer(request, 405, "This address does not take that kind of request.")
    answer["Allow"] = ", ".join(allowed)
    return answer


def too_fast(request: HttpRequest, wait_s: int) -> HttpResponse:
    """429, with the seconds to wait."""
    answer = _answer(request, 429, f"You ask for this too fast. Try again in {wait_s} s.")
    answer["Retry-After"] = str(wait_s)
    return answer


def account_too_fast(request: HttpRequest) -> HttpResponse:
    """429 of the pages for signing in, whose own limits are a minute's."""
    return too_fast(request, 60)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, the same words for what is missing and for what is not yours."""
    return _answer(request, 404, "There is no such page, or it is not for you.")


def server_error(request: HttpRequest) -> HttpResponse:
    """500, with an id that is in the log, too; without the shell, which may be broken.

    503 where the database is away, or older than this program, or the server has no more memory or
    files: nothing is broken but that.
    """
    reference = uuid.uuid4().hex[:12]
    logger.error("page %s failed, reference %s", request.path, reference)
    # Django calls this while it handles what the view raised.
    error = sys.exc_info()[1]
    behind = BEHIND if is_database_behind(error) else ""
    is_away = is_database_away(error) or is_exhausted(error)
    status = 503 if behind or is_away else 500
    context = {"reference": reference, "behind": behind}
    html = loader.render_to_string(f"errors/{status}.html", context)
    return HttpResponse(
        html, status=status, headers={"Retry-After": "2"} if status == 503 else None
    )


def _answer(request: HttpRequest, status: int, detail: str) -> HttpResponse:
    context = {"detail": detail, "status": status}
    return render(request, f"errors/{status}.html", context, status=status)
