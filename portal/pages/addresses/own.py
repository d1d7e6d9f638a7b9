"""One's own mail address: another one is asked for, sent again, cancelled."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect

from accounts.errors import Conflict, DomainError, Forbidden, NotFound
from accounts.selectors.addresses import open_change_of
from accounts.services.addresses.asking import ask_address, cancel_address, send_address_link
from portal import limits
from portal.forms.people import AddressForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.settings import profile_page
from portal.pages.signing.again import asks_password


@page("POST", back="profile")
@asks_password
def address_ask(request: HttpRequest) -> HttpResponseBase:
    """Ask for another address; the profile says what happens now, or what is wrong."""
    viewer, form = viewer_of(request), AddressForm(request.POST)
    if form.is_valid():
        take_letter(viewer.pk, form.cleaned_data["email"])
        try:
            change = ask_address(actor=viewer, email=form.cleaned_data["email"])
        except (Forbidden, NotFound, Conflict):
            raise
        except DomainError as refused:
            form.add_error("email", refused.detail)
        else:
            messages.success(request, sent_to(change.new_email))
            return redirect("profile")
    return profile_page(request, address_form=form)


@page("POST", back="profile")
def address_again(request: HttpRequest) -> HttpResponseBase:
    """Send the link again."""
    viewer = viewer_of(request)
    if waits := open_change_of(viewer, viewer):
        take_letter(viewer.pk, waits.new_email)
    return said_and_back(
        request, lambda: sent_to(send_address_link(actor=viewer).new_email), "profile"
    )


@page("POST", back="profile")
def address_cancel(request: HttpRequest) -> HttpResponseBase:
    """Leave the address as it is."""
    viewer = viewer_of(request)

    def act() -> str:
        cancel_address(actor=viewer)
        return "Your mail address stays as it is."

    return said_and_back(request, act, "profile")


def take_letter(person: int, to: str) -> None:
    """Count a letter; raises TooFast for one too many."""
    if wait_s := limits.letter_wait_s(person, to):
        raise limits.TooFast(wait_s)


def sent_to(email: str) -> str:
    """What whoever asked is told, whoever has the address."""
    return f"A letter to {email} is on its way. Nothing changes until its link is followed."
