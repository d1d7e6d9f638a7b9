"""`/s/<job>/…`: the only way to a session's program, for who holds a key to it.

1. `?ticket=` at the top is exchanged for a key, a cookie of this path alone, and is gone. Where
   sessions share the portal's address, by whom it was given to, signed in in this browser; under a
   name of their own whoever was not sent by one of our pages is asked first. So nobody can be led
   into another's session by a link.
2. Without a key that is good now the way leads to the session's page, where a ticket is given.
3. The shell's page is ours; all else is passed through the node's tunnel to the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from django.conf import settings
from django.template.loader import render_to_string

from accounts.origin import enter_origin, leave_origin
from portal.doors import lanes
from portal.live.session import user_of_session
from portal.live.sessions.access import (
    COOKIE,
    caller_of,
    doorkeeper,
    header,
    is_own_page,
    is_right_host,
    is_shared,
    job_of_path,
    own_origin,
)
from portal.live.sessions.proxy import Unreachable, pass_request
from scheduler.services.sessions import redeem_ticket
from scheduler.wire.sessions import path_of

PREFIX = "/s/"
_MAX_QUERY = 4096
_WORDS = {
    "no_tunnel": "The node is not connected to the portal just now. This page tries again.",
    "not_ready": "The program does not answer yet; it may still be starting. This page tries "
    "again.",
}
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)


async def gate(scope: Any, receive: Any, send: Any) -> None:
    """One HTTP request below `/s/`."""
    with lanes.one():
        await _serve(scope, receive, send)


async def _serve(scope: Any, receive: Any, send: Any) -> None:
    job_id = job_of_path(scope["path"])
    if job_id is None or not is_right_host(scope):
        await _say(send, 404, "There is no such page, or it is not for you.")
        return
    home = path_of(job_id)
    if scope["path"] == home and b"ticket=" in scope["query_string"]:
        await _exchange(scope, send, job_id)
        return
    caller = caller_of(scope)
    entry = await doorkeeper.entry(caller, job_id)
    if entry is None:
        await _turn_away(scope, send, job_id)
    elif entry.app == "shell":
        is_page = scope["path"] == home and scope["method"] in ("GET", "HEAD")
        if not is_page:
            await _say(send, 404, "There is no such page.")
            return
        page = render_to_string("sessions/terminal.html", {"job_id": job_id, "home": _page(job_id)})
        await _reply(send, 200, page)
    else:
        try:
            await pass_request(scope, receive, send, entry, caller)
        except Unreachable as why:
            text = _WORDS.get(str(why), "The program did not answer this request.")
            await _say(send, 502, text, again=header(scope, b"sec-fetch-mode") == "navigate")


async def _exchange(scope: Any, send: Any, job_id: int) -> None:
    if not is_shared() and not _is_meant(scope):
        text = f"Open session {job_id} in this browser? Only if you asked for it yourself."
        await _say(send, 200, text, ask=True)
        return
    query = parse_qs(scope["query_string"][:_MAX_QUERY].decode("latin-1"))
    ticket = query.get("ticket", [""])[0]
    key = await database_sync_to_async(_redeemed)(ticket, job_id, scope)
    if key is None:
        text = "This ticket was used before, is too old, or is not yours. "
        text += "Sign in, go back to the session and connect once more."
        await _say(send, 403, text, back=_page(job_id))
        return
    is_secure = own_origin().startswith("https:")
    cookie = f"{COOKIE}={key}; Path={path_of(job_id)}; HttpOnly; SameSite=Lax; Max-Age=43200"
    cookie += "; Secure" if is_secure else ""
    headers = [(b"location", path_of(job_id).encode()), (b"set-cookie", cookie.encode())]
    await _reply(send, 303, "", headers)


def _is_meant(scope: Any) -> bool:
    """Whether a page of the portal led here, or the button of our own question was pressed."""
    if scope["method"] == "POST":
        return is_own_page(scope)
    return header(scope, b"sec-fetch-site") in ("same-site", "same-origin")


def _redeemed(ticket: str, job_id: int, scope: Any) -> str | None:
    address = (scope.get("client") or ("",))[0]
    enter_origin("session", address, header(scope, b"user-agent"))
    try:
        return redeem_ticket(ticket=ticket, job_id=job_id, by=_person(scope))
    finally:
        leave_origin()


def _person(scope: Any) -> int | None:
    """Who must have asked for the ticket; None: whoever brings it."""
    if not is_shared():
        return None
    person = user_of_session(caller_of(scope).signed_in)
    return person.pk if person is not None else 0


async def _turn_away(scope: Any, send: Any, job_id: int) -> None:
    if scope["path"] == path_of(job_id) and scope["method"] == "GET":
        await _reply(send, 303, "", [(b"location", _page(job_id).encode())])
    else:
        await _say(send, 403, "You are not connected to this session.", back=_page(job_id))


def _page(job_id: int) -> str:
    """The session's own page on the portal."""
    base = settings.PUBLIC_URL if settings.TRAINYARD["session_origin"] else ""
    return f"{base}/sessions/{job_id}/"


async def _say(
    send: Any, status: int, text: str, *, back: str = "", again: bool = False, ask: bool = False
) -> None:
    """A page of one sentence and a way on: `back`, by itself `again`, or a button that `ask`s."""
    home = f"{settings.PUBLIC_URL}/"
    said = {"text": text, "back": back, "again": again, "ask": ask, "status": status, "home": home}
    page = render_to_string("sessions/gate.html", said)
    policy = _POLICY.replace(b"form-action 'none'", b"form-action 'self'")
    # Without a referrer the form would not tell its origin either.
    freer = [(b"content-security-policy", policy), (b"referrer-policy", b"same-origin")]
    await _reply(send, status, page, freer if ask else ())


async def _reply(
    send: Any, status: int, page: str, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    body = page.encode()
    own = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", _POLICY),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    ]
    told = dict(headers)
    own = [(name, value) for name, value in own if name not in told]
    start = {"type": "http.response.start", "status": status, "headers": [*own, *headers]}
    await send(start)
    await send({"type": "http.response.body", "body": body})
