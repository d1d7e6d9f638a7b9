"""Django's own middleware, run together: one change of threads each way instead of one each.

Under ASGI, Django hands every `process_request` and every `process_response` of a middleware to a
thread of its own accord; with eight of them that took longer than many a page. Equals listing
the same middleware one by one in MIDDLEWARE.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string

GetResponse = Callable[[HttpRequest], Any]


class _Parts:
    """The middleware of `MIDDLEWARE_TOGETHER`, outermost first."""

    def __init__(self, get_response: GetResponse) -> None:
        self._parts = [import_string(path)(get_response) for path in settings.MIDDLEWARE_TOGETHER]
        self._viewers = [part for part in self._parts if hasattr(part, "process_view")]

    def before(self, request: HttpRequest) -> tuple[HttpResponseBase | None, int]:
        """An early answer, if a part gives one, and how many parts are to see the answer."""
        for depth, part in enumerate(self._parts):
            if not hasattr(part, "process_request"):
                continue
            try:
                early = part.process_request(request)
            except Exception as error:
                return response_for_exception(request, error), depth
            if early is not None:
                return early, depth + 1
        return None, len(self._parts)

    def after(
        self, request: HttpRequest, response: HttpResponseBase, depth: int
    ) -> HttpResponseBase:
        """The answer as the parts leave it, innermost first."""
        for part in reversed(self._parts[:depth]):
            if hasattr(part, "process_response"):
                try:
                    response = part.process_response(request, response)
                except Exception as error:
                    response = response_for_exception(request, error)
        return response

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        for part in self._viewers:
            early: HttpResponseBase | None = part.process_view(request, view, args, kwargs)
            if early is not None:
                return early
        return None


@sync_and_async_middleware
def together(get_response: GetResponse) -> GetResponse:
    """What `MIDDLEWARE_TOGETHER` lists."""
    parts = _Parts(get_response)
    if iscoroutinefunction(get_response):
        before, after = sync_to_async(parts.before), sync_to_async(parts.after)
        check_view = sync_to_async(parts.process_view)

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            response, depth = await before(request)
            if response is None:
                response = await get_response(request)
            return await after(request, response, depth)

        async def process_view(
            request: HttpRequest, view: Any, args: Any, kwargs: Any
        ) -> HttpResponseBase | None:
            # What the only such part would do itself, a thread later.
            if getattr(view, "csrf_exempt", False):
                return None
            return await check_view(request, view, args, kwargs)

        answer_later.process_view = process_view  # type: ignore[attr-defined]
        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        response, depth = parts.before(request)
        if response is None:
            response = get_response(request)
        return parts.after(request, response, depth)

    answer.process_view = parts.process_view  # type: ignore[attr-defined]
    return answer
