"""The rule by which a pool is scheduled."""

from __future__ import annotations

from typing import Any

from django import forms

from scheduler.engine.policy import Order
from scheduler.services.sharing.policies import PLACEMENTS

OPEN = ("", "as the cluster says")


class PolicyForm(forms.Form):
    """What a pool has of its own; the service says what would have no effect."""

    name = forms.ChoiceField(label="Who is next", choices=[(str(o), str(o)) for o in Order])
    preempts = forms.ChoiceField(
        label="May stop others", choices=[OPEN, ("yes", "yes"), ("no", "no")], required=False
    )
    placement = forms.ChoiceField(
        label="Where jobs go", choices=[OPEN, *((str(p), str(p)) for p in PLACEMENTS)],
        required=False,
    )  # fmt: skip
    head_patience_s = forms.FloatField(
        label="Patience, in seconds", required=False,
        help_text="How long a job that does not fit lets others pass. Empty: as the cluster says.",
    )  # fmt: skip

    def wanted(self) -> dict[str, Any]:
        """As the service takes it."""
        said = self.cleaned_data
        return {**said, "preempts": {"yes": True, "no": False}.get(said["preempts"])}
