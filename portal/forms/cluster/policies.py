"""The rule by which a pool is scheduled."""

from __future__ import annotations

from typing import Any

from django import forms

from scheduler.engine.policy import ORDER_WORDS, PLACEMENT_WORDS
from scheduler.services.sharing.policies import PLACEMENTS

OPEN = ("", "as the cluster says")
ORDER_HELP = (
    "Within a tier. Smallest share: whose team holds and held least. Oldest: who waits longest. "
    "Shortest: who has least left to run. Least run: who has run least so far."
)


class PolicyForm(forms.Form):
    """What a pool has of its own; the service says what would have no effect."""

    name = forms.ChoiceField(
        label="Who is next", choices=[(str(one), said) for one, said in ORDER_WORDS.items()],
        help_text=ORDER_HELP,
    )  # fmt: skip
    preempts = forms.ChoiceField(
        label="May stop others", choices=[OPEN, ("yes", "yes"), ("no", "no")], required=False
    )
    placement = forms.ChoiceField(
        label="Where jobs go", required=False,
        choices=[OPEN, *((str(one), PLACEMENT_WORDS[one]) for one in PLACEMENTS)],
    )  # fmt: skip
    head_patience_s = forms.FloatField(
        label="Patience, in seconds", required=False, min_value=0,
        help_text="How long a job that does not fit lets others pass. Empty: as the cluster says.",
    )  # fmt: skip

    def wanted(self) -> dict[str, Any]:
        """As the service takes it."""
        said = self.cleaned_data
        return {**said, "preempts": {"yes": True, "no": False}.get(said["preempts"])}
