"""A person's own settings: name and theme."""

from __future__ import annotations

from django.conf import settings as django_settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.errors import DomainError
from accounts.permissions import can
from accounts.services import change_display_name
from accounts.trail import may_read
from portal.forms.tokens import ProfileForm
from portal.pages.access import page, takes, viewer_of
from portal.pages.shell import THEME_COOKIE, THEMES

_A_YEAR_S = 365 * 86400


@page("GET", "POST")
def profile(request: HttpRequest) -> HttpResponseBase:
    """The name shown to others, one's teams, and the theme."""
    viewer = viewer_of(request)
    initial = {"display_name": viewer.display_name}
    form = ProfileForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            change_display_name(actor=viewer, display_name=form.cleaned_data["display_name"])
            messages.success(request, "Saved.")
            return redirect("profile")
        except DomainError as refused:
            form.add_error("display_name", refused.detail)
    memberships = viewer.memberships.select_related("team").order_by("team__slug")
    context = {
        "form": form,
        "memberships": memberships,
        "may_see_roles": can(viewer, "read_settings", None),
        "may_see_audit": may_read(viewer),
    }
    return render(request, "settings/profile.html", context)


@takes("POST")
def theme(request: HttpRequest) -> HttpResponse:
    """Remember the theme in a cookie and go back to where the button was."""
    back = request.POST.get("next", "/")
    if not back.startswith("/") or not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = "/"
    response = redirect(back)
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        response.set_cookie(
            THEME_COOKIE,
            chosen,
            max_age=_A_YEAR_S,
            httponly=True,
            samesite="Lax",
            secure=django_settings.SESSION_COOKIE_SECURE,
        )
    return response
