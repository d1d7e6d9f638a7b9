"""In which zone a page says times: that of its browser, which tells it by cookie; else UTC.

For pages alone. The REST API, the agent's and what is streamed as a file say UTC to everybody, and
so do the pages of the books and of the audit trail, whose days and months are those of UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, tzinfo
from functools import cache
from inspect import iscoroutinefunction
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware

COOKIE = "zone"
# A person's own choice, see HABITS of portal.pages.shell; "utc" goes before what the browser says.
CHOICE_COOKIE = "times"
_LONGEST = 64
_ALWAYS_UTC = ("/api/", "/audit/", "/finance/", "/usage/")
_UTC_NAMES = {"UTC", "UCT", "Universal", "Zulu", *(f"Etc/{n}" for n in ("UTC", "UCT", "Zulu"))}

# Browsers call some zones as tables of long ago did; who lives there does not.
_RENAMED = {
    "Africa/Asmera": "Africa/Asmara",
    "America/Buenos_Aires": "America/Argentina/Buenos_Aires",
    "America/Godthab": "America/Nuuk",
    "Asia/Calcutta": "Asia/Kolkata",
    "Asia/Katmandu": "Asia/Kathmandu",
    "Asia/Rangoon": "Asia/Yangon",
    "Asia/Saigon": "Asia/Ho_Chi_Minh",
    "Atlantic/Faeroe": "Atlantic/Faroe",
    "Europe/Kiev": "Europe/Kyiv",
    "Pacific/Ponape": "Pacific/Pohnpei",
    "Pacific/Truk": "Pacific/Chuuk",
}

GetResponse = Callable[[HttpRequest], Any]


@cache
def _known() -> frozenset[str]:
    """Asked for by name in this set alone: a name from outside never becomes a path."""
    return frozenset(available_timezones() - _UTC_NAMES)


def zone_of(cookies: Mapping[str, str]) -> tzinfo:
    """The zone that a browser's cookies name; UTC for none, for an unknown one, and by choice."""
    name = cookies.get(COOKIE, "")
    if not name or len(name) > _LONGEST or cookies.get(CHOICE_COOKIE) == "utc":
        return UTC
    # The tables of this machine may be of long ago themselves.
    known = (one for one in (_RENAMED.get(name, name), name) if one in _known())
    return next(map(ZoneInfo, known), UTC)


@sync_and_async_middleware
def zoned(get_response: GetResponse) -> GetResponse:
    """Sets the zone for one request; whatever was set before it is so again after it."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            with timezone.override(_zone_for(request)):
                response: HttpResponseBase = await get_response(request)
                return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(_zone_for(request)):
            response: HttpResponseBase = get_response(request)
            return response

    return answer


def _zone_for(request: HttpRequest) -> tzinfo:
    return UTC if request.path_info.startswith(_ALWAYS_UTC) else zone_of(request.COOKIES)
