"""When a person is told: quiet hours, mails that come together, and what waits for neither."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden
from portal.pages.access import page, viewer_of
from scheduler.selectors.inbox import hours_for
from scheduler.services.inbox import set_hours
from scheduler.states import NOTICE_RULES, RHYTHM_WORDS, is_quiet


class _Clock(forms.TimeInput):
    """A time of day as the browser's own picker writes it."""

    input_type = "time"

    def __init__(self) -> None:
        super().__init__(format="%H:%M")


class HoursForm(forms.Form):
    """Times of day are of the zone."""

    mail = forms.ChoiceField(
        label="Mails",
        choices=[(str(one), words) for one, words in RHYTHM_WORDS.items()],
        help_text="What comes together says what ended, with its cost, and what waits for you.",
    )
    digest_at = forms.TimeField(
        label="Daily and weekly mails come at", widget=_Clock, required=False
    )
    quiet_from = forms.TimeField(
        label="Quiet from",
        widget=_Clock,
        required=False,
        help_text="Mails and your chats wait; the inbox does not. Empty: never quiet.",
    )
    quiet_until = forms.TimeField(label="Quiet until", widget=_Clock, required=False)
    zone = forms.CharField(
        label="Time zone",
        max_length=64,
        help_text="Such as Europe/Berlin. The times above are in this zone, wherever you open the "
        "portal.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    urgent = forms.MultipleChoiceField(
        label="Urgent: comes at once, day and night",
        required=False,
        choices=[(str(kind), rule.words) for kind, rule in NOTICE_RULES.items()],
        widget=forms.CheckboxSelectMultiple,
    )

    def clean(self) -> dict[str, Any]:
        """Both ends of the quiet, or neither."""
        sent: dict[str, Any] = super().clean() or {}
        ends = sent.get("quiet_from"), sent.get("quiet_until")
        for name, end in zip(("quiet_from", "quiet_until"), ends, strict=True):
            if end is None and any(ends) and name not in self.errors:
                self.add_error(name, "Give both times, or leave both empty.")
        return sent


@page("GET", "POST")
def notification_hours(request: HttpRequest) -> HttpResponseBase:
    """The viewer's hours, in the zone of the page until they choose one."""
    viewer, now = viewer_of(request), timezone.now()
    chosen = hours_for(viewer)
    initial = {
        "mail": chosen.mail if chosen else "at_once",
        "digest_at": chosen.digest_at if chosen else "08:00",
        "zone": chosen.zone if chosen else timezone.get_current_timezone_name(),
        "quiet_from": chosen.quiet_from if chosen else None,
        "quiet_until": chosen.quiet_until if chosen else None,
        "urgent": sorted(chosen.urgent) if chosen else ["job_preempted", "request_waiting"],
    }
    form = HoursForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        sent = dict(form.cleaned_data)
        ends = sent.pop("quiet_from"), sent.pop("quiet_until")
        try:
            set_hours(actor=viewer, quiet=ends if None not in ends else (), **sent)
        except Forbidden:
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            messages.success(request, "Saved.")
            return redirect("notification_hours")
    context = {"form": form, "is_quiet_now": chosen is not None and is_quiet(chosen, now)}
    return render(request, "inbox/hours.html", context, status=422 if form.errors else 200)
