"""What the pages are narrowed to: said by `?scope=`, kept for the person, changed in the top bar.

The address is the truth: a shared link shows the same rows to whoever may see them. What was kept
only fills in the address of a page that is opened without any parameter.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import Resolver404, resolve

from accounts.errors import NotFound
from accounts.models import User
from scheduler.selectors.saved.scopes import EVERYTHING, Scope, name_of, scope_of

PARAMETER = "scope"
ALL = "all"
# The pages that know the parameter.
NARROWED = frozenset(
    {"home", "jobs:list", "sessions:list", "queue:list", "costs:overview", "costs:waste"}
)
# Where in a list one is means nothing in another.
_PLACES = frozenset({PARAMETER, "cursor", "top", "part"})


def scope_here(request: HttpRequest, viewer: User, problems: list[str]) -> Scope:
    """The scope that the address names; one that is not there for the viewer is a problem."""
    text = request.GET.get(PARAMETER, "")
    found = EVERYTHING
    if text and text != ALL:
        try:
            found = scope_of(viewer, text)
        except NotFound:
            problems.append(
                f"scope: there is no {text[:80]!r} for you, so nothing was left out; choose a team "
                "or project in the top bar."
            )
    request.narrowed_to = found  # type: ignore[attr-defined]
    return found


def opened_in_scope(request: HttpRequest, viewer: User) -> HttpResponseBase | None:
    """A page asked for without any parameter opens as the person last narrowed it."""
    if request.GET or not viewer.scope:
        return None
    try:
        scope_of(viewer, viewer.scope)
    except NotFound:
        return None
    return redirect(in_scope(request.path, viewer.scope))


def in_scope(address: str, text: str) -> str:
    """The address with another scope; without one where the page knows none."""
    parts = urlsplit(address)
    try:
        knows = resolve(parts.path).view_name in NARROWED
    except Resolver404:
        knows = False
    if not knows:
        return address
    pairs = [pair for pair in parse_qsl(parts.query) if pair[0] not in _PLACES]
    query = urlencode([*pairs, (PARAMETER, text or ALL)], safe=":/")
    return f"{parts.path}?{query}"


def shown_scope(request: HttpRequest) -> dict[str, Any]:
    """For the frame: `name` in the top bar, and what its links append. Asks for no row."""
    here: Scope | None = getattr(request, "narrowed_to", None)
    user = getattr(request, "user", None)
    kept = (user.scope or "") if isinstance(user, User) else ""
    text = kept if here is None else here.text
    link = text or (ALL if here is not None and request.GET.get(PARAMETER) == ALL else "")
    query = urlencode({PARAMETER: link}, safe=":/") if link else ""
    return {
        "name": name_of(text),
        "text": text,
        "pages": NARROWED,
        "query": query,
        "more": query and f"&{query}",
    }
