"""Forms of what pools cost and who pays for it: terms, purchases, other costs.

What a figure may be the services say, by field; here only text becomes numbers and days.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from portal.forms.money.finance import money_field
from scheduler.models import CostKind, Recovery
from scheduler.models.money.terms import POLICY_WORDS, Unreachable
from scheduler.services.books.policies import OFFERED

_DAY = {"invalid": "Write a day such as 2026-12-01."}
_WHOLE = {"invalid": "Write a whole number."}
_AS_IT_IS = ("", "as it is")
_POLICIES = [_AS_IT_IS, *((str(policy), POLICY_WORDS[policy]) for policy in OFFERED)]


def _whole(label: str, **more: Any) -> forms.IntegerField:
    box = forms.TextInput(attrs={"inputmode": "numeric"})
    return forms.IntegerField(label=label, error_messages=_WHOLE, widget=box, **more)


def _day(label: str, **more: Any) -> forms.DateField:
    box = forms.TextInput(attrs={"placeholder": "2026-12-01"})
    formats = ["%Y-%m-%d"]
    return forms.DateField(
        label=label, error_messages=_DAY, input_formats=formats, widget=box, **more
    )


class _OfPool(forms.Form):
    pool = forms.ChoiceField(label="Pool", choices=())

    def __init__(self, *args: Any, pools: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cast(forms.ChoiceField, self.fields["pool"]).choices = [(name, name) for name in pools]


class TermsForm(_OfPool):
    """Who pays for what nobody used in a pool, from a month on; what is left out stays as it is."""

    from_month = forms.CharField(
        label="From month", max_length=7, required=False, help_text="Empty: the first open one."
    )
    idle = forms.ChoiceField(label="Idle time is paid by", choices=_POLICIES, required=False)
    platform = forms.ChoiceField(
        label="Drained, broken and silent time is paid by", choices=_POLICIES, required=False
    )
    guarantee_percent = _whole(
        "By guarantee (%)",
        required=False,
        help_text="Where it is partly by guarantee. Empty: as it is.",
    )
    refund_s = _whole(
        "Credited before a preemption (s)",
        required=False,
        help_text="At most; 0: nothing. Empty: as it is.",
    )
    recovery = forms.ChoiceField(
        label="Teams pay", choices=[_AS_IT_IS, *Recovery.choices], required=False
    )
    unreachable = forms.ChoiceField(
        label="Held by a silent node: paid by",
        choices=[_AS_IT_IS, *Unreachable.choices],
        required=False,
    )
    reason = forms.CharField(label="Reason", max_length=255)

    def changes(self) -> dict[str, Any]:
        """What was filled in, by name; of the pool's other terms nothing."""
        return {name: value for name, value in self.cleaned_data.items() if value not in ("", None)}


class AssetForm(_OfPool):
    """A purchase that is written off by the day."""

    name = forms.CharField(label="What", max_length=128)
    paid = money_field("Paid")
    paid_currency = forms.CharField(
        label="In currency", max_length=3, required=False, help_text="Empty: that of the books."
    )
    fx_rate = money_field(
        "One unit of it was", required=False, help_text="In the books' currency, on that day."
    )
    fx_source = forms.CharField(label="Where that rate is from", max_length=128, required=False)
    residual = money_field("Worth at the end", required=False)
    since = _day("In use from")
    months = _whole("Written off over (months)")


class RetireForm(forms.Form):
    """An asset's first day out of service, and why."""

    on = _day("First day out of service")
    reason = forms.CharField(label="Reason", max_length=255)


class CostForm(_OfPool):
    """Energy, staff or another cost of a pool in a month."""

    month = forms.CharField(label="Month", max_length=7, help_text="Such as 2026-11.")
    kind = forms.ChoiceField(label="Kind", choices=CostKind.choices)
    amount = money_field("Amount", help_text="Negative: takes back.")
    note = forms.CharField(label="What for", max_length=255)
