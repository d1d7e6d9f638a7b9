"""One declaration per operation: its name, scope, query and shapes, for the server and the schema.

    @operation("jobs_list", "Jobs you may see", scope="jobs:read", query=[Query("state", str, …)],
               reply=JobPage)
    def get(self, request): …

What is not declared is refused: unknown or repeated query parameters are a 400 that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time
from inspect import getdoc
from typing import Any, TypeVar

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import (
    AuthenticationFailed,
    NotAuthenticated,
    Throttled,
    ValidationError,
)
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from portal import limits
from portal.api.errors import CONTENT_TYPE as PROBLEM_TYPE
from portal.api.errors import BadRequest, LengthRequired
from portal.api.holding import COUNTED
from portal.api.parsing import is_utf8, numbers_for_texts
from portal.api.shapes import Problem
from portal.origins import address_of, request_id_of

Method = TypeVar("Method", bound=Callable[..., Any])
MAX_QUERY_CHARS = 8000
_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter an operation understands."""

    name: str
    kind: type
    about: str
    choices: tuple[str, ...] = ()

    def parameter(self) -> OpenApiParameter:
        return OpenApiParameter(
            self.name, self.kind, description=self.about, enum=self.choices or None
        )


@dataclass(frozen=True, slots=True)
class Header:
    """A request header an operation understands."""

    name: str
    about: str

    def parameter(self) -> OpenApiParameter:
        return OpenApiParameter(
            self.name, str, location=OpenApiParameter.HEADER, description=self.about
        )


def operation(
    name: str,
    summary: str,
    *,
    scope: str | None,
    query: Sequence[Query] = (),
    headers: Sequence[Header] = (),
    body: Any = None,
    reply: Any = None,
    status: int = 200,
    replies: Mapping[int, Any] | None = None,
    reply_type: str = "",
) -> Callable[[Method], Method]:
    """Declare a view's method; `scope` None keeps API tokens out, ANY_SCOPE lets all in.

    `reply_type`: the media type of a reply that is not JSON.
    """

    def declare(method: Method) -> Method:
        about: Any = method
        about.scope = scope
        about.operation_id = name
        about.query_names = frozenset(one.name for one in query)
        needs = "signed-in people only" if scope is None else f"token scope: {scope}"
        declared: Method = extend_schema(
            operation_id=name,
            summary=summary,
            description=f"{getdoc(method) or ''}\n\n({needs})".strip(),
            parameters=[*(q.parameter() for q in query), *(h.parameter() for h in headers)],
            request=body,
            responses={
                (status, reply_type) if reply_type else status: reply,
                **(replies or {}),
                ("4XX", PROBLEM_TYPE): Problem,
            },
        )(method)
        return declared

    return declare


class _AlwaysJSON(BaseContentNegotiation):
    """The Accept header chooses nothing: there is one representation."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        sent = (request.content_type or "").partition(";")[0].strip().lower()
        return next((one for one in parsers if one.media_type == sent), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        first = next(iter(renderers))
        return first, str(first.media_type)


class ApiView(APIView):
    """What all API views share: request ids, strict query parameters, no caching."""

    content_negotiation_class = _AlwaysJSON
    metadata_class = None  # OPTIONS is not offered

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        if request.META.get("HTTP_TRANSFER_ENCODING"):
            raise LengthRequired("Send the body with a Content-Length, not in chunks.")
        self._let_in(request, *args, **kwargs)
        if any("\x00" in word for word in kwargs.values() if isinstance(word, str)):
            raise Http404  # no database holds such a name, and PostgreSQL refuses the question
        handler = getattr(self, (request.method or "").lower(), None)
        if handler is not None:
            _refuse_odd_query(request, getattr(handler, "query_names", frozenset()))

    def _let_in(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Who it is and whether they may, as often as they may; raises Throttled.

        Refused callers are counted by address, so that tokens cannot be guessed at full speed.
        """
        address = address_of(request)
        if wait_s := limits.own_wait_s(limits.REFUSED, address, takes=False):
            raise too_fast(wait_s)
        try:
            super().initial(request, *args, **kwargs)
        except (NotAuthenticated, AuthenticationFailed):
            limits.own_wait_s(limits.REFUSED, address)
            raise
        # One that is held is made anew at every hint, and is one call all the same.
        if not getattr(request._request, COUNTED, False):
            refuse_fast(limits.API, request.user.pk)

    def finalize_response(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response: Response = super().finalize_response(request, *args, **kwargs)
        response["X-Request-ID"] = request_id_of(request)
        response.setdefault("Cache-Control", "no-store")
        return response


def refuse_fast(kind: str, who: object) -> None:
    """Count a call of theirs; raises Throttled for one too many."""
    if wait_s := limits.wait_s(kind, who):
        raise too_fast(wait_s)


def too_fast(wait_s: int) -> Throttled:
    """The refusal, with the seconds to wait."""
    return Throttled(wait_s, "Too many calls in too short a time.")


def _refuse_odd_query(request: Request, known: frozenset[str]) -> None:
    if len(request.META.get("QUERY_STRING", "")) > MAX_QUERY_CHARS:
        raise BadRequest(
            f"The query is longer than {MAX_QUERY_CHARS} characters.", code="query_too_long"
        )
    errors = []
    for name, values in request.query_params.lists():
        if name not in known:
            offered = ", ".join(sorted(known)) or "none"
            errors.append((name[:64], f"is not a query parameter here; known: {offered}"))
        elif len(values) > 1:
            errors.append((name, "appears more than once; send it once"))
        elif "\x00" in values[0]:
            errors.append((name, "holds a NUL character; remove it"))
        elif "\ufffd" in values[0] and not is_utf8(request.META["QUERY_STRING"]):
            errors.append((name, "is not UTF-8; encode it as UTF-8 and escape it with %"))
    if errors:
        raise BadRequest(
            "The query parameters are not right.",
            code="bad_query",
            errors=errors[:20],
            about_names=True,
        )


def _bad(name: str, message: str) -> BadRequest:
    return BadRequest(f"{name} {message}.", code="bad_query", errors=[(name, message)])


def whole(request: Request, name: str, default: int, *, low: int, high: int) -> int:
    """A whole number from the query; raises BadRequest outside `low` to `high`."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS
    if not is_number or not low <= int(text) <= high:
        raise _bad(name, f"must be a whole number from {low} to {high}")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """True for `1` or `true`, False when absent, `0` or `false`."""
    text = request.query_params.get(name, "0").lower()
    if text not in ("0", "1", "true", "false"):
        raise _bad(name, "must be 1 or 0")
    return text in ("1", "true")


def choice(request: Request, name: str, known: Sequence[str], default: str) -> str:
    """One of `known`."""
    text = request.query_params.get(name, "") or default
    if text not in known:
        raise _bad(name, f"must be one of {', '.join(known)}")
    return text


def choices(request: Request, name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Several of `known`, comma-separated."""
    found = tuple(word for word in request.query_params.get(name, "").split(",") if word)
    if not set(found) <= set(known):
        raise _bad(name, f"must be one or more of {', '.join(known)}, separated by commas")
    return found


def moment(request: Request, name: str, default: datetime) -> datetime:
    """A date (its first second in UTC) or a time with its offset."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        if len(text) == len("2026-01-31"):
            found = datetime.combine(date.fromisoformat(text), time(), UTC)
        else:
            found = datetime.fromisoformat(text)
            found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        # What is asked for is reckoned with days before and after it.
        if not MINYEAR < found.year < MAXYEAR:
            raise ValueError
        return found
    except (ValueError, OverflowError):
        raise _bad(name, "must be a date such as 2026-01-31 or 2026-01-31T08:00:00Z") from None


def body_of(request: Request, shape: type[Serializer[Any]] | None = None) -> dict[str, Any]:
    """The body checked against `shape`; unknown fields are refused. None: no body expected.

    Raises BadRequest or the framework's ValidationError, both 400.
    """
    sent = request.data
    if not isinstance(sent, Mapping):
        raise BadRequest("The body must be a JSON object.", code="not_an_object")
    known = set(shape().fields) if shape else set()
    unknown = [str(key)[:64] for key in sent if key not in known]
    if unknown:
        offered = ", ".join(sorted(known)) or "none"
        raise BadRequest(
            "The body has fields that are not known here.",
            code="unknown_field",
            errors=[(key, f"is not a field here; known: {offered}") for key in unknown[:50]],
            about_names=True,
        )
    if shape is None:
        return {}
    if errors := dict(numbers_for_texts(shape().fields, sent)):
        raise ValidationError(errors)
    checked = shape(data=sent)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)
