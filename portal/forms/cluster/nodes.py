"""Forms of the operators: drain with a reason, enrol a node, open a pool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from scheduler.models import Node


class DrainForm(forms.Form):
    """Why a node is to take no more work."""

    reason = forms.CharField(
        label="Reason",
        max_length=200,
        help_text="Shown to everybody whose job waits for this node.",
        widget=forms.TextInput(attrs={"placeholder": "firmware update, back at 18:00"}),
    )
    stop_jobs = forms.BooleanField(
        label="Stop its jobs now",
        required=False,
        help_text="They get their stop signal and grace to save, and queue again in their place.",
    )


class PlaceForm(forms.Form):
    """Where the node stands and what it has; the services check the names."""

    rack = forms.CharField(label="Rack", max_length=63, required=False)
    block = forms.CharField(
        label="Block", max_length=63, required=False, help_text="Racks with a fast network."
    )
    labels = forms.CharField(
        label="Labels",
        max_length=2000,
        required=False,
        help_text="What jobs may ask for, all of them: network=ib, disk=nvme.",
        widget=forms.TextInput(attrs={"placeholder": "network=ib, disk=nvme"}),
    )

    @classmethod
    def of_node(cls, node: Node) -> PlaceForm:
        """Filled with what is known."""
        labels = ", ".join(f"{label}={value}" for label, value in sorted(node.labels.items()))
        return cls(initial={"rack": node.rack, "block": node.block, "labels": labels})

    def clean_labels(self) -> dict[str, str]:
        """By label its value."""
        parts = [one.strip() for one in self.cleaned_data["labels"].split(",") if one.strip()]
        pairs = [one.partition("=") for one in parts]
        wrong = next((one for one, pair in zip(parts, pairs, strict=True) if not pair[2]), None)
        if wrong is not None:
            raise forms.ValidationError(f"{wrong[:40]} is not a label; write network=ib.")
        return {label.strip(): value.strip() for label, _, value in pairs}


class EnrolForm(forms.Form):
    """Which pool the new node joins, and how long its token may be used."""

    pool = forms.ChoiceField(label="Pool", choices=())
    minutes = forms.IntegerField(
        label="Valid for, in minutes", min_value=1, max_value=1440, initial=15
    )

    def __init__(self, *args: Any, pools: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.ChoiceField, self.fields["pool"])
        field.choices = [(name, name) for name in pools]


class PoolForm(forms.Form):
    """A new pool; the service checks its name."""

    name = forms.CharField(
        label="Name", max_length=63, help_text="Lower-case letters, digits and dashes: h100."
    )
    description = forms.CharField(label="Description", max_length=255, required=False)
