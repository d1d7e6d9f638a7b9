"""What passes between a browser and a session's program, and what stays with the portal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from portal.live.sessions.access import COOKIE
from scheduler.services.sessions import Entry
from scheduler.wire.sessions import SERVED_FROM_ROOT, path_of

Headers = list[tuple[bytes, bytes]]

# RFC 9110, 7.6.1, and what is said anew on each side.
_HOPS = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"),
    *(b"transfer-encoding", b"proxy-authenticate", b"proxy-authorization"),
}
# The portal's own, and what a program could take for the word of somebody it trusts.
_NOT_IN = _HOPS | {b"authorization", b"cookie", b"x-csrftoken", b"forwarded", b"expect"}
# With these a program would speak for the whole origin.
_NOT_OUT = _HOPS | {
    *(b"set-cookie", b"service-worker-allowed", b"clear-site-data", b"alt-svc", b"server", b"date"),
    *(b"strict-transport-security", b"public-key-pins", b"report-to", b"nel", b"x-frame-options"),
    *(b"x-content-type-options", b"referrer-policy", b"cross-origin-resource-policy"),
    *(b"cross-origin-opener-policy", b"x-powered-by", b"via"),
}
_OUR_COOKIES = re.compile(r"(?i)trainyard|messages$|theme$|keys$|zone$|__host-|__secure-")
_NAME = re.compile(r"[!#$%&'*+.^_`|~:0-9A-Za-z-]+")
# Path is ours to say, and a Domain would take it beyond.
_ATTRIBUTES = {"expires", "max-age", "secure", "httponly", "samesite", "partitioned"}


def as_asked(scope: Any, entry: Entry) -> Any:
    """The scope with the path that the program is asked for: a program that knows no address of its
    own serves from the root."""
    home, path = path_of(entry.job_id).encode(), scope["raw_path"]
    if entry.app not in SERVED_FROM_ROOT or not path.startswith(home):
        return scope
    return {**scope, "raw_path": path[len(home) - 1 :]}


def inward(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """A browser's headers as the program gets them: no cookie and no credential of ours."""
    kept = []
    cookies = []
    for name, value in headers:
        if name == b"cookie":
            cookies += _foreign_cookies(value.decode("latin-1"))
        elif name not in _NOT_IN and not name.startswith((b"x-forwarded-", b"sec-websocket-")):
            kept.append((name, value))
    if cookies:
        kept.append((b"cookie", "; ".join(cookies).encode("latin-1")))
    return kept


def outward(headers: Iterable[tuple[bytes, bytes]], job_id: int) -> Headers:
    """The program's headers as the browser gets them: its cookies stay below its own path."""
    kept: Headers = []
    for name, value in headers:
        if name == b"set-cookie":
            kept += [(name, one) for one in _own_cookies(value.decode("latin-1"), job_id)]
        elif name not in _NOT_OUT:
            kept.append((name, value))
    kept += [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"x-frame-options", b"SAMEORIGIN"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
        # Beside the program's own policy, if it has one: a browser keeps both.
        (b"content-security-policy", b"frame-ancestors 'self'"),
    ]
    return kept


def _is_ours(name: str) -> bool:
    own = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, COOKIE)
    return name in own or _OUR_COOKIES.match(name) is not None


def _foreign_cookies(value: str) -> list[str]:
    """Those of `a=1; b=2` that the portal did not set."""
    pairs = (pair.strip() for pair in value.split(";"))
    return [pair for pair in pairs if pair and not _is_ours(pair.partition("=")[0].strip())]


def _own_cookies(value: str, job_id: int) -> Iterable[bytes]:
    """A program's cookie below its own path, if browsers take it. Split as they do: a value may
    hold quotes and braces."""
    pair, *attributes = (part.strip() for part in value.split(";"))
    name = pair.partition("=")[0].strip()
    # One without a name would be sent back as if its value were name and value.
    if "=" not in pair or not _NAME.fullmatch(name) or _is_ours(name):
        return
    kept = [one for one in attributes if one.partition("=")[0].strip().lower() in _ATTRIBUTES]
    yield "; ".join([pair, *kept, f"Path={path_of(job_id)}"]).encode("latin-1")
