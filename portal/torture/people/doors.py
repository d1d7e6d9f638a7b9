"""How people come in."""

from __future__ import annotations

import httpx

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
