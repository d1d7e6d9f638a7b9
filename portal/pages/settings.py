"""A person's own settings: name, theme, and how this browser behaves."""

from __future__ import annotations

from django.conf import settings as django_settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from accounts.errors import DomainError
from accounts.permissions import can
from accounts.selectors.addresses import decided_by, open_change_of
from accounts.services import change_display_name
from accounts.services.identities.reading import identity_of
from accounts.trail import may_read
from portal.forms.people import AddressForm
from portal.forms.tokens import ProfileForm
from portal.pages.access import page, takes, viewer_of
from portal.pages.shell import HABITS, THEME_COOKIE, THEMES
from portal.pages.signing.doors import offered

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
    return profile_page(request, form=form)


def profile_page(
    request: HttpRequest,
    *,
    form: ProfileForm | None = None,
    address_form: AddressForm | None = None,
) -> HttpResponse:
    """The page, with the forms as they were sent."""
    viewer = viewer_of(request)
    memberships = viewer.memberships.select_related("team").order_by("team__slug")
    context = {
        "form": form or ProfileForm(initial={"display_name": viewer.display_name}),
        "address_form": address_form or AddressForm(),
        "address_change": open_change_of(viewer, viewer),
        "address_by": decided_by(viewer),
        "address_user": viewer,
        "now": timezone.now(),
        "memberships": memberships,
        "may_see_roles": can(viewer, "read_settings", None),
        "may_see_audit": may_read(viewer),
        "identity": identity_of(viewer, viewer),
        "has_password": viewer.has_usable_password(),
        **offered(request),
    }
    return render(request, "settings/profile.html", context)


@takes("POST")
def theme(request: HttpRequest) -> HttpResponse:
    """Remember the theme in a cookie and go back to where the button was."""
    response = redirect(_back(request, "/"))
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


@page("POST")
def keys(request: HttpRequest) -> HttpResponse:
    """Keep how this browser behaves in cookies: single-key shortcuts, the pace of updates, the
    rail. What is not among the choices changes nothing."""
    viewer_of(request)
    response = redirect(_back(request, reverse("profile")))
    for name, choices in HABITS.items():
        if (chosen := request.POST.get(name)) in choices:
            secure = request.is_secure()
            response.set_cookie(name, chosen, max_age=_A_YEAR_S, samesite="Lax", secure=secure)
    return response


def _back(request: HttpRequest, usual: str) -> str:
    """Where the button was; only addresses of this host."""
    back = request.POST.get("next", "")
    is_ours = back.startswith("/") and url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return back if is_ours else usual
