"""A part of a page that is as the browser has it already is answered by 304, without its text."""

from __future__ import annotations

import re
from hashlib import blake2b

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response, patch_cache_control

# Drawn anew each time; whoever has one of the same secret may go on using it.
_TOKEN = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')


def unless_unchanged(request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
    """The answer with a tag of what it and its headers say, or 304 where the request names that
    tag.

    Only parts (`?part=`) have one: pages ask for them again every few seconds. Whoever asks is
    told the truth of now, so a copy is asked about each time (`no-cache`) and kept by nobody else.
    """
    if not isinstance(answer, HttpResponse) or not _is_part(request, answer):
        return answer
    told = blake2b(_TOKEN.sub(b"", answer.content), digest_size=16)
    # A 304 brings no header of the view's own: one that says something else, such as that the page
    # is to be opened anew (`HX-Refresh`), is a change.
    told.update(repr(sorted(answer.items())).encode())
    told.update(request.META.get("CSRF_COOKIE", "").encode())
    # Weak: a proxy that compresses may leave it as it is.
    answer["ETag"] = tag = f'W/"{told.hexdigest()}"'
    patch_cache_control(answer, private=True, no_cache=True)
    return get_conditional_response(request, etag=tag, response=answer) or answer


def _is_part(request: HttpRequest, answer: HttpResponse) -> bool:
    is_read = request.method in ("GET", "HEAD") and answer.status_code == 200
    return is_read and "part" in request.GET and not answer.has_header("Cache-Control")
