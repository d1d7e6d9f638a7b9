"""Forms of requests for quota: asking, revising, deciding."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast

from django import forms
from django.utils import timezone

from accounts.models import User
from portal.forms.spans import utc_of
from scheduler.states import DENY_WORDS, KIND_WORDS, Outcome, RequestKind

USUAL_DAYS = 90
_MOST = 2**31 - 1


def _date(label: str, hint: str = "", *, required: bool = True) -> forms.DateField:
    widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
    return forms.DateField(label=label, help_text=hint, widget=widget, required=required)


def _amount(label: str, hint: str = "", *, required: bool = True) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        help_text=hint,
        min_value=1,
        max_value=_MOST,
        required=required,
        widget=forms.NumberInput(attrs={"inputmode": "numeric", "step": 1}),
        error_messages={"invalid": "Write a whole number, such as 8, without dots or commas."},
    )


def _why() -> forms.CharField:
    return forms.CharField(
        label="What it is for",
        max_length=4096,
        help_text="What you will run, why it needs this much, and why now.",
        widget=forms.Textarea(attrs={"rows": 4}),
    )


def _hour(label: str) -> forms.TimeField:
    widget = forms.TimeInput(attrs={"type": "time"}, format="%H:%M")
    return forms.TimeField(label=label, widget=widget, required=False)


def begin_of(day: date, now: datetime, hour: time | None = None) -> datetime:
    """That hour of a day in the zone of the page, else the day's first moment in UTC, by which
    limits and budgets go; today begins now. In UTC."""
    if hour is not None:
        return utc_of(datetime.combine(day, hour))
    if day in (now.astimezone(UTC).date(), timezone.localtime(now).date()):
        return now
    return datetime.combine(day, time(), UTC)


def _check_hour(form: forms.Form, day: str, hour: str) -> None:
    """An error at the field of an hour that clocks leave out or have twice on that day."""
    sent = form.cleaned_data
    if sent.get(day) is None or sent.get(hour) is None:
        return
    try:
        utc_of(datetime.combine(sent[day], sent[hour]))
    except OverflowError:
        form.add_error(day, "Choose a day of this century.")
    except ValueError as error:
        form.add_error(hour, f"{error}.")


class WishForm(forms.Form):
    """How much, from when until when, and why."""

    amount = _amount("How many", hint="GPUs; hours of time limit, GPU-hours, or money.")
    valid_from = _date("From")
    from_hour = _hour("From, hour")
    valid_until = _date("Until", "Ends at the start of that day, or at the hour given.")
    until_hour = _hour("Until, hour")
    justification = _why()

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        zone = timezone.get_current_timezone_name()
        days = "" if zone == "UTC" else " A day without an hour is one of UTC."
        self.fields["until_hour"].help_text = f"Both hours are for bookings, in {zone}.{days}"

    def clean(self) -> None:
        """Hours have to be of their days."""
        _check_hour(self, "valid_from", "from_hour")
        _check_hour(self, "valid_until", "until_hour")

    def wish(self, now: datetime) -> dict[str, Any]:
        """As the services take it."""
        sent = self.cleaned_data
        return {
            "amount": sent["amount"],
            "valid_from": begin_of(sent["valid_from"], now, sent["from_hour"]),
            "valid_until": begin_of(sent["valid_until"], now, sent["until_hour"]),
            "justification": sent["justification"],
        }


class AskForm(WishForm):
    """The whole request."""

    owner = forms.ChoiceField(label="For")
    kind = forms.ChoiceField(
        label="What", choices=[(str(kind), words) for kind, words in KIND_WORDS.items()]
    )
    pool = forms.ChoiceField(label="Pool", required=False)
    gpu_model = forms.ChoiceField(label="GPU model", required=False)

    field_order = (
        "owner",
        "kind",
        "pool",
        "gpu_model",
        "amount",
        "valid_from",
        "from_hour",
        "valid_until",
        "until_hour",
        "justification",
    )

    @classmethod
    def offering(
        cls,
        data: Any,
        *,
        owners: Iterable[str],
        pools: Iterable[str],
        models: Iterable[str],
        owner: str,
        now: datetime,
        kind: str = "",
    ) -> AskForm:
        """With what this person may choose; a booking begins with the next hour and lasts two."""
        first = days_between(now, now + timedelta(days=USUAL_DAYS))
        if kind == RequestKind.RESERVATION:
            begin = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
            first = hours_between(begin, begin + timedelta(hours=2))
        known = kind if kind in set(RequestKind) else str(RequestKind.GUARANTEED)
        form = cls(data, initial={"owner": owner, "kind": known, **first})
        choices = {
            "owner": [(path, path) for path in owners],
            "pool": [("", "any pool"), *((name, name) for name in pools)],
            "gpu_model": [("", "any GPU model"), *((name, name) for name in models)],
        }
        for name, offered in choices.items():
            cast(forms.ChoiceField, form.fields[name]).choices = offered
        return form


def hours_between(begin: datetime, end: datetime) -> dict[str, Any]:
    """The first values of a form for these moments, in the zone of the page."""
    begin, end = timezone.localtime(begin), timezone.localtime(end)
    return {
        "valid_from": begin.date(),
        "from_hour": begin.time(),
        "valid_until": end.date(),
        "until_hour": end.time(),
    }


def days_between(begin: datetime, end: datetime) -> dict[str, Any]:
    """The same without hours: days of UTC."""
    return {
        "valid_from": begin.astimezone(UTC).date(),
        "valid_until": end.astimezone(UTC).date(),
    }


_SAID = {
    Outcome.APPROVE: "Approve as asked",
    Outcome.LESS: "Approve less or shorter",
    Outcome.ASK: "Ask back",
    Outcome.DENY: "Deny",
}


class DecideForm(forms.Form):
    """What to say to the version that was looked at."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    outcome = forms.ChoiceField(
        label="Your decision",
        choices=[(str(outcome), words) for outcome, words in _SAID.items()],
        initial=str(Outcome.APPROVE),
        widget=forms.RadioSelect,
    )
    amount = _amount("How many, for less", required=False)
    valid_until = _date("Until, for shorter", required=False)
    until_hour = _hour("Until, hour")
    reason_code = forms.ChoiceField(
        label="Reason, to deny",
        required=False,
        choices=[("", "choose one"), *((str(one), words) for one, words in DENY_WORDS.items())],
    )
    comment = forms.CharField(
        label="Comment or question",
        required=False,
        max_length=4096,
        help_text="Sent to whoever asked.",
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        zone = timezone.get_current_timezone_name()
        if zone != "UTC":
            said = f"In {zone}. The day without an hour is one of UTC."
            self.fields["until_hour"].help_text = said

    def clean(self) -> None:
        """The hour has to be of its day; less has to be named, and a refusal its reason."""
        _check_hour(self, "valid_until", "until_hour")
        sent, said = self.cleaned_data, self.cleaned_data.get("outcome")
        parts = ("amount", "valid_until")
        if said == Outcome.LESS and not any(sent.get(p) or self.has_error(p) for p in parts):
            self.add_error("amount", "Write how many, or below until when; or approve as asked.")
        if said == Outcome.DENY and not sent.get("reason_code"):
            self.add_error("reason_code", "Choose why; whoever asked is told.")

    def said(self, now: datetime) -> dict[str, Any]:
        """As the service takes it; what belongs to another outcome is left out."""
        sent = dict(self.cleaned_data)
        day, hour = sent.pop("valid_until"), sent.pop("until_hour")
        is_less = sent["outcome"] == Outcome.LESS
        sent["amount"] = sent["amount"] if is_less else None
        sent["valid_until"] = begin_of(day, now, hour) if is_less and day else None
        return sent


class VersionForm(forms.Form):
    """A button that names the version it was pressed on."""

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class AssignForm(VersionForm):
    """Whom to hand it to: one of those who may decide, or again whoever may."""

    to = forms.ChoiceField(label="To", required=False)

    @classmethod
    def offering(cls, people: Iterable[User], initial: dict[str, Any]) -> AssignForm:
        """With these people's usernames, told apart by their full names."""
        form = cls(initial=initial)
        rows = [("", "whoever may decide")]
        rows += [(one.get_username(), one.get_full_name() or one.get_username()) for one in people]
        cast(forms.ChoiceField, form.fields["to"]).choices = rows
        return form


class TextForm(forms.Form):
    """A comment or an answer."""

    text = forms.CharField(
        label="Comment", max_length=4096, widget=forms.Textarea(attrs={"rows": 2})
    )


class RuleForm(forms.Form):
    """Who decides on requests of a kind, and how soon; the service says what has no effect."""

    kind = forms.ChoiceField(
        label="Kind of request",
        required=False,
        choices=[
            ("", "Any kind without its own rule"),
            *((str(k), w) for k, w in KIND_WORDS.items()),
        ],
    )
    money_limit = forms.DecimalField(
        label="Finance too above, a month",
        required=False,
        max_digits=20,
        decimal_places=6,
        help_text="In the currency of the books. Empty: no cost brings finance in.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages={"invalid": "Write an amount such as 2500.50."},
    )
    always_admin = forms.BooleanField(label="An administrator always decides", required=False)
    sla_hours = _amount("Hours for each step")
    most_days = _amount("Days at most")
    auto_up_to = _amount(
        "Needs nobody up to",
        "Of this one kind, for a team within 30 days, where a lead alone could agree.",
        required=False,
    )


class RuleEndForm(forms.Form):
    """Whose rule ends."""

    kind = forms.CharField(max_length=16, required=False)
