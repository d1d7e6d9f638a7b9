"""Somebody else's mail address, for administrators."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase

from accounts.selectors.addresses import open_change_of
from accounts.services.addresses.asking import ask_address_for, cancel_address, send_address_link
from accounts.services.addresses.changing import set_address
from portal.forms.people import OthersAddressForm
from portal.pages.access import page, refused_form, said_and_back, viewer_of
from portal.pages.addresses.own import sent_to, take_letter
from portal.pages.signing.again import asks_password
from scheduler.selectors.people.everybody import get_somebody


@page("POST")
@asks_password
def user_address(request: HttpRequest, username: str) -> HttpResponseBase:
    """Send them a link to another address, or set it at once."""
    viewer = viewer_of(request)
    person, form = get_somebody(viewer, username), OthersAddressForm(request.POST)
    if form.is_valid():
        take_letter(viewer.pk, form.cleaned_data["email"])

    def act() -> str:
        if not form.is_valid():
            raise refused_form(form)
        sent = dict(form.cleaned_data)
        how, name = sent.pop("how"), person.get_full_name()
        if how == "now":
            email = set_address(actor=viewer, user=person, **sent).email
            return f"The address of {name} is {email} now."
        return sent_to(ask_address_for(actor=viewer, user=person, **sent).new_email)

    return said_and_back(request, act, "users:detail", username)


@page("POST")
def user_address_again(request: HttpRequest, username: str) -> HttpResponseBase:
    """Send them the link again."""
    viewer = viewer_of(request)
    person = get_somebody(viewer, username)
    if waits := open_change_of(viewer, person):
        take_letter(viewer.pk, waits.new_email)
    return said_and_back(
        request,
        lambda: sent_to(send_address_link(actor=viewer, user=person).new_email),
        "users:detail",
        username,
    )


@page("POST")
def user_address_cancel(request: HttpRequest, username: str) -> HttpResponseBase:
    """Leave their address as it is."""
    viewer = viewer_of(request)
    person = get_somebody(viewer, username)

    def act() -> str:
        cancel_address(actor=viewer, user=person)
        return f"The address of {person.get_full_name()} stays as it is."

    return said_and_back(request, act, "users:detail", username)
