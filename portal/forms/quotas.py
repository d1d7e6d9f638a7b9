"""The form of a quota; what a figure may be the service says, by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms

_WHOLE = {"invalid": "Write a whole number of GPUs."}


def _gpus(label: str, **more: Any) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        error_messages=_WHOLE,
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
        **more,
    )


class QuotaForm(forms.Form):
    """What a team or project may hold of a pool and a GPU model; empty sets no limit."""

    owner = forms.ChoiceField(label="Whose", choices=())
    pool = forms.ChoiceField(label="Pool", choices=(), required=False)
    gpu_model = forms.ChoiceField(label="GPU model", choices=(), required=False)
    guaranteed = _gpus("Guaranteed")
    borrow_limit = _gpus("Borrows at most", required=False)
    lend_limit = _gpus("Lends at most", required=False)
    maximum = _gpus("Holds at most", required=False)
    max_hours = forms.IntegerField(
        label="Longest job",
        required=False,
        help_text="Hours; for any GPU model.",
        error_messages={"invalid": "Write whole hours, such as 48."},
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self,
        *args: Any,
        owners: Iterable[tuple[str, str]],
        pools: Iterable[str],
        models: Iterable[tuple[str, str]],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        offered = {
            "owner": list(owners),
            "pool": [("", "all pools"), *((name, name) for name in pools)],
            "gpu_model": [("", "any"), *models],
        }
        for name, pairs in offered.items():
            cast(forms.ChoiceField, self.fields[name]).choices = pairs
