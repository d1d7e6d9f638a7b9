"""How people come in."""

from __future__ import annotations

import httpx
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from portal.torture.yard import Yard


def signed_in(yard: Yard, username: str) -> httpx.Client:
    """A browser, as far as the portal can tell: session, CSRF token, own origin."""
    person = httpx.Client(base_url=yard.address, timeout=20, follow_redirects=True)
    person.headers["Origin"] = yard.address
    person.headers["Referer"] = f"{yard.address}/"
    person.get("/accounts/login/").raise_for_status()
    password = next(a.password for a in yard.accounts if a.username == username)
    form = {"login": username, "password": password}
    token = person.cookies.get("csrftoken") or ""
    form["csrfmiddlewaretoken"] = token
    person.post("/accounts/login/", data=form).raise_for_status()
    person.headers["X-CSRFToken"] = person.cookies.get("csrftoken") or ""
    return person


def open_page(yard: Yard, cookies: dict[str, str]) -> ClientConnection:
    """The socket of a page; raises OSError and WebSocketException where it does not open."""
    address = yard.address.removeprefix("http://")
    return connect(
        f"ws://{address}/ws/",
        origin=Origin(yard.address),
        additional_headers={"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())},
        open_timeout=10,
        close_timeout=0.5,
        proxy=None,
    )
