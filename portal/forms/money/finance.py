"""Forms of those who keep the books: an amount by hand, a price, a budget.

What a figure may be the services say, by field; here only text becomes numbers and times.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from django import forms
from django.utils import timezone

from accounts.models import RateKind
from scheduler.models import AlertAction, CommitsAt, Enforcement, Renewal, Threshold
from scheduler.services.sharing.keeping.rules import usual_commit

_NUMBER = {"invalid": "Write a number with a point for decimals, such as 1250.50."}
_MONTH, _MONTH_LATER = "2026-12-01 00:00", "2027-01-01 00:00"
_MOMENT = {"invalid": f"Write a date and time such as {_MONTH}; it is taken as UTC."}


def money_field(label: str, **more: Any) -> forms.DecimalField:
    """Any decimal number; how many digits it may have the service says."""
    return forms.DecimalField(
        label=label,
        max_digits=40,
        decimal_places=25,
        error_messages=_NUMBER,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        **more,
    )


class _UtcField(forms.DateTimeField):
    """Months, prices and budgets begin and end in UTC, whatever the zone of the page."""

    def prepare_value(self, value: Any) -> Any:
        with timezone.override(UTC):
            return super().prepare_value(value)

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(UTC):
            read: datetime | None = super().to_python(value)
            return read


def _moment(label: str, such_as: str = _MONTH, **more: Any) -> forms.DateTimeField:
    return _UtcField(
        label=label,
        error_messages=_MOMENT,
        widget=forms.TextInput(attrs={"placeholder": such_as}),
        **more,
    )


def _choices(form: forms.Form, field: str, pairs: Iterable[tuple[str, str]]) -> None:
    cast(forms.ChoiceField, form.fields[field]).choices = list(pairs)


class AdjustmentForm(forms.Form):
    """What a project owes, or is owed, and why."""

    project = forms.ChoiceField(label="Project", choices=())
    amount = money_field("Amount", help_text="Negative: the project gets it back.")
    reason = forms.CharField(label="Reason", max_length=255)

    def __init__(self, *args: Any, projects: Iterable[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _choices(self, "project", projects)


class PriceForm(forms.Form):
    """A price that waits for a second person."""

    device_model = forms.ChoiceField(label="GPU model", choices=(), required=False)
    kind = forms.ChoiceField(label="For", choices=RateKind.choices, required=False)
    price_per_gpu_hour = money_field("Price of one GPU-hour")
    card = forms.TypedChoiceField(
        label="On", choices=(), coerce=int, empty_value=None, required=False
    )
    valid_from = _moment("Valid from (UTC)", required=False, help_text="Empty: from now on.")
    valid_until = _moment(
        "Until right before (UTC)",
        _MONTH_LATER,
        required=False,
        help_text="Empty: until the next price.",
    )
    priority = forms.TypedChoiceField(
        label="Goes before",
        choices=((0, "no other price"), (1, "the usual price"), (2, "all other prices")),
        coerce=int,
        empty_value=None,
        required=False,
        help_text="What holds for some time only has to go before the usual price.",
    )
    restate = forms.BooleanField(
        label="Price the past anew",
        required=False,
        help_text="Closed months are corrected by what differs.",
    )
    reason = forms.CharField(label="Reason", max_length=255, required=False)

    def __init__(
        self,
        *args: Any,
        models: Iterable[tuple[str, str]],
        cards: Iterable[tuple[int, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        _choices(self, "device_model", [("", "any other model"), *models])
        named = [("", "the list, for everybody"), *((str(pk), name) for pk, name in cards)]
        _choices(self, "card", named)


class CardForm(forms.Form):
    """A team's own rate card, without rates so far. It stands beside a form with like fields."""

    team = forms.SlugField(label="Team", max_length=63)
    name = forms.CharField(label="Name", max_length=64)
    valid_from = _moment("From (UTC)", required=False, help_text="Empty: from its first price on.")
    valid_until = _moment(
        "Until right before (UTC)", _MONTH_LATER, required=False, help_text="Empty: no end."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "card_%s", **kwargs})


class EndForm(forms.Form):
    """When a price ends."""

    valid_until = _moment("Ends (UTC)", required=False)


class BudgetForm(forms.Form):
    """GPU-hours or money of the organisation, a team or a project, and how it is kept."""

    owner = forms.ChoiceField(label="Whose", choices=())
    valid_from = _moment("From (UTC)")
    valid_until = _moment("Until right before (UTC)", _MONTH_LATER)
    gpu_hours = forms.IntegerField(
        label="GPU-hours", required=False, widget=forms.TextInput(attrs={"inputmode": "numeric"})
    )
    amount = money_field("Money instead of GPU-hours", required=False)
    enforcement = forms.ChoiceField(
        label="What it does", choices=Enforcement.choices, initial=Enforcement.RESERVE
    )
    commits_at = forms.ChoiceField(
        label="It commits a job's worst case",
        choices=[("", "At the submit if it reserves"), *CommitsAt.choices],
        required=False,
        help_text="Choose the start where queues are longer than what is left. In money no more "
        "is committed than a job's highest price.",
    )
    grace_s = forms.IntegerField(label="Grace before a stop (s)", initial=600)
    carry_percent = forms.IntegerField(label="Carried over (% of what is left)", initial=0)
    renewal = forms.ChoiceField(label="Renews itself", choices=Renewal.choices, required=False)
    action = forms.ChoiceField(
        label="An alert", choices=AlertAction.choices, initial=AlertAction.NOTIFY
    )
    action_at = forms.ChoiceField(
        label="Alert at", choices=Threshold.choices, initial=Threshold.ALL
    )
    version = forms.IntegerField(required=False, widget=forms.HiddenInput)

    def clean_commits_at(self) -> str:
        """What is usual, where nobody chose."""
        chosen: str = self.cleaned_data["commits_at"]
        return chosen or usual_commit(self.cleaned_data.get("enforcement", ""))

    def __init__(self, *args: Any, owners: Iterable[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _choices(self, "owner", owners)
