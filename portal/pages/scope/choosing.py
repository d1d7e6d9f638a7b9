"""The choice of a team or project that pages are narrowed to, as a menu and as a page."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.errors import NotFound
from accounts.services import keep_scope
from portal.pages.access import page, viewer_of
from portal.pages.scope.narrowing import in_scope
from scheduler.selectors.saved.scopes import MOST_OFFERED, offered_scopes, scope_of

_MOST_LETTERS = 100


@page("GET", "POST")
def scope(request: HttpRequest) -> HttpResponseBase:
    """GET: all there is to choose, `?q=` by name; `?part=menu` for the top bar. POST keeps one."""
    viewer = viewer_of(request)
    if request.method == "POST":
        return _kept(request)
    text = " ".join(request.GET.get("q", "").split())[:_MOST_LETTERS]
    offers, is_cut = offered_scopes(viewer, text)
    context = {
        "offers": offers,
        "most": MOST_OFFERED if is_cut else 0,
        "q": text,
        "kept": viewer.scope or "",
        "back": _safe(request.GET.get("next", "")),
    }
    part = "#choices" if request.GET.get("part") == "menu" else ""
    return render(request, f"scope/choose.html{part}", context)


def _kept(request: HttpRequest) -> HttpResponseBase:
    viewer, text = viewer_of(request), request.POST.get("scope", "")
    if text:
        try:
            scope_of(viewer, text)
        except NotFound:
            messages.error(request, "There is no such team or project for you.")
            return redirect("scope")
    keep_scope(actor=viewer, scope=text)
    return redirect(in_scope(_safe(request.POST.get("next", "")), text))


def _safe(address: str) -> str:
    """An address of our own, or home."""
    if address.startswith("/") and url_has_allowed_host_and_scheme(address, allowed_hosts=None):
        return address
    return "/"
