"""The form of prices."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, cast

from django import forms


class RateForm(forms.Form):
    """What a GPU-hour costs from now on; the empty model stands for all that have no own price."""

    device_model = forms.ChoiceField(label="GPU model", choices=(), required=False)
    price_per_gpu_hour = forms.DecimalField(
        label="Price of one GPU-hour",
        min_value=Decimal(0),
        max_digits=12,
        decimal_places=6,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "placeholder": "2.90"}),
    )

    def __init__(self, *args: Any, models: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.ChoiceField, self.fields["device_model"])
        field.choices = [("", "any other model"), *((model, model) for model in models)]
