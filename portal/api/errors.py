"""Every refusal as a problem document (RFC 9457), whatever raised it.

    {"type": "about:blank", "title": "Not Found", "status": 404, "code": "not_found",
     "detail": "There is no such job for you.", "errors": [{"field": …, "message": …}],
     "facts": {…}, "request_id": "…"}

`code` is stable and for programs, `detail` and `message` are for people.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import DomainError, Invalid, NotFound
from accounts.models import User
from accounts.services.audit import record_refusal
from portal.forms.labels import with_given
from portal.origins import request_id_of
from portal.outages import (
    BEHIND,
    is_database_away,
    is_database_behind,
    is_disk_full,
    is_exhausted,
)
from scheduler.spec import SpecInvalid

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
# A full disk, a full quota of a file system, a disk that can only be read.


class BadRequest(exceptions.APIException):
    """A request that cannot be understood; `errors` are (field, message) pairs, which say what was
    given unless they are about names of fields."""

    status_code = 400
    default_code = "bad_request"

    def __init__(
        self,
        detail: str,
        *,
        code: str = "bad_request",
        errors: Sequence[tuple[str, str]] = (),
        about_names: bool = False,
    ) -> None:
        super().__init__(detail, code)
        self.errors, self.about_names = tuple(errors), about_names


class LengthRequired(exceptions.APIException):
    """A body of unknown length; it would be taken for an empty one."""

    status_code = 411
    default_code = "length_required"


class TooLarge(exceptions.APIException):
    """A body over the limit; refused before it is parsed."""

    status_code = 413
    default_code = "too_large"


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    errors: Sequence[tuple[str, str]] = (),
    facts: Mapping[str, object] | None = None,
    request_id: str,
) -> dict[str, Any]:
    """The document itself."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "errors": [{"field": field, "message": message} for field, message in errors],
        "facts": dict(facts or {}),
        "request_id": request_id,
    }


def problem_response(error: Exception, context: Mapping[str, Any]) -> Response:
    """The REST framework's exception hook; nothing raised in an API view escapes it."""
    request = context.get("request")
    request_id = request_id_of(request)
    status, document, headers = _read(error, _sent(request), request_id)
    if status >= 500:
        logger.error("request %s failed", request_id, exc_info=error)
    _audit_forbidden(error, context, request_id)
    response = Response(document, status=status, headers=headers, content_type=CONTENT_TYPE)
    response["X-Request-ID"] = request_id
    return response


def _audit_forbidden(error: Exception, context: Mapping[str, Any], request_id: str) -> None:
    """Somebody tried to write what only the server writes: operators find it on record."""
    if not isinstance(error, SpecInvalid):
        return
    fields = [each.field for each in error.problems if each.code == "forbidden_field"]
    user = getattr(context.get("request"), "user", None)
    if not fields or not isinstance(user, User):
        return
    logger.warning(
        "request %s: %s sent the fields %s", request_id, user.username, ", ".join(fields)
    )
    try:
        record_refusal(actor=user, fields=fields)
    except DatabaseError:  # the refusal stands, and the line above is there
        logger.exception("request %s: it could not be put on record", request_id)


@csrf_exempt  # it does nothing, and says so as a problem, whoever asks
def no_such_route(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
    """What the API answers where nothing is."""
    request_id = request_id_of(request)
    detail = "There is nothing at this address."
    if not request.path.endswith("/"):
        detail += " Addresses of this API end with a slash."
    document = problem(404, "no_such_route", detail, request_id=request_id)
    response = JsonResponse(document, status=404, content_type=CONTENT_TYPE)
    response["X-Request-ID"] = request_id
    return response


def _sent(request: Request | None) -> dict[str, object]:
    """Fields of the query, where it can be read, and of the body, where it was."""
    if request is None:
        return {}
    try:
        query = request.query_params.dict()
    except SuspiciousOperation:  # more of them than anybody means
        return {}
    body = vars(request).get("_full_data")
    return {**query, **(body if isinstance(body, dict) else {})}


def _read(
    error: Exception, sent: Mapping[str, object], request_id: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, document and extra headers for any exception; `sent` by field."""
    if isinstance(error, DomainError):
        status, code, detail = error.status, error.code, error.detail
        if isinstance(error, Invalid | NotFound):
            detail = with_given(detail, error.field, sent)
        errors = [(error.field, detail)] if error.field else []
        return (
            status,
            problem(status, code, detail, errors=errors, facts=error.facts, request_id=request_id),
            {},
        )
    if isinstance(error, SpecInvalid):
        errors = [(one.field, one.message) for one in error.problems]
        detail = f"The job spec has {len(errors)} problem{'s' * (len(errors) != 1)}."
        # Fields that do not exist are a misunderstanding of the document, not a wrong value.
        status = 400 if error.has_alien_fields else 422
        found = problem(status, "spec_invalid", detail, errors=errors, request_id=request_id)
        return status, found, {}
    if isinstance(error, exceptions.APIException):
        return _of_framework(error, sent, request_id)
    status, code, detail = _of_django(error)
    headers = {"Retry-After": "2"} if status == 503 else {}
    return status, problem(status, code, detail, request_id=request_id), headers


def _of_django(error: Exception) -> tuple[int, str, str]:
    if isinstance(error, Http404):
        return 404, "not_found", "There is no such thing here."
    if isinstance(error, PermissionDenied):
        return 403, "forbidden", str(error) or "You may not do this."
    if isinstance(error, RequestDataTooBig):
        return 413, "too_large", "The body is larger than this address accepts."
    if isinstance(error, SuspiciousOperation):
        return 400, "bad_request", "The request is malformed."
    if is_database_behind(error):
        return 503, "database_behind", BEHIND
    if is_database_away(error):
        return 503, "database_busy", "The database does not answer right now. Try again shortly."
    if is_disk_full(error):
        return 503, "disk_full", "The server's disk is full; nothing was changed. Tell an operator."
    if is_exhausted(error):
        return 503, "server_busy", "The server has more to do than it can. Try again shortly."
    return (
        500,
        "server_error",
        "Something broke on our side; nothing was half-done. Tell an operator the request id.",
    )


def _of_framework(
    error: exceptions.APIException, sent: Mapping[str, object], request_id: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    headers: dict[str, str] = {}
    if challenge := getattr(error, "auth_header", ""):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait) + 1)
    errors: list[tuple[str, str]] = list(getattr(error, "errors", ()))
    status, code = error.status_code, "invalid"
    if isinstance(error, exceptions.ValidationError):
        errors = list(_flat(error.detail))
    if not getattr(error, "about_names", False):
        errors = [(field, with_given(message, field, sent)) for field, message in errors]
    if isinstance(error, exceptions.ValidationError):
        detail = "; ".join(f"{field}: {message}" for field, message in errors[:5])
    else:
        code = str(getattr(error.detail, "code", error.default_code))
        detail = str(error.detail)
    return status, problem(status, code, detail, errors=errors, request_id=request_id), headers


def _flat(detail: Any, path: str = "") -> list[tuple[str, str]]:
    """The framework's nested error lists as (field, message) pairs."""
    if isinstance(detail, Mapping):
        pairs = []
        for key, inner in detail.items():
            name = "" if key == "non_field_errors" else f".{key}"
            where = f"{path}[{key}]" if isinstance(key, int) else f"{path}{name}".strip(".")
            pairs += _flat(inner, where)
        return pairs
    if isinstance(detail, (list, tuple)):
        pairs = []
        for index, inner in enumerate(detail):
            where = path if isinstance(inner, str) else f"{path}[{index}]"
            pairs += _flat(inner, where)
        return pairs
    return [(path or "body", str(detail))]
