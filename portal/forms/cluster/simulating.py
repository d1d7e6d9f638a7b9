"""What is replayed, and under which other rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from scheduler.engine.policy import Order
from scheduler.services.simulating.scenarios import MOST_HOURS

AS_IS = ("", "as it is")


class ScenarioForm(forms.Form):
    """The last hours of a pool, and what would be different."""

    pool = forms.ChoiceField(label="Pool", choices=())
    hours = forms.IntegerField(
        label="Last hours", min_value=1, max_value=MOST_HOURS, initial=24,
        help_text="Jobs that were submitted then and have ended.",
    )  # fmt: skip
    order = forms.ChoiceField(
        label="Who is next", choices=[AS_IS, *((str(one), str(one)) for one in Order)],
        required=False,
    )  # fmt: skip
    preempt = forms.ChoiceField(
        label="May stop others", choices=[AS_IS, ("yes", "yes"), ("no", "no")], required=False,
        help_text="The simulator follows it under shortest and las.",
    )  # fmt: skip
    nodes = forms.IntegerField(
        label="Nodes", min_value=1, max_value=100_000, required=False,
        help_text="Empty: as many as there are.",
    )  # fmt: skip
    more = forms.CharField(
        label="Teams and faults", max_length=2000, required=False,
        help_text="A change a line: weight:vision=2, guaranteed:vision=8, maximum:vision=16, "
        "lose:3@3600 (node 3 an hour in), drain:3@3600, restore:3@7200.",
        widget=forms.Textarea(attrs={"rows": 3}),
    )  # fmt: skip
    name = forms.CharField(label="Name", max_length=80, required=False)

    def __init__(self, *args: Any, pools: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.ChoiceField, self.fields["pool"])
        field.choices = [(name, name) for name in pools]

    def changes(self) -> list[str]:
        """In the simulator's words, the policy before what depends on it."""
        said = self.cleaned_data
        named = (("nodes", "nodes"), ("order", "policy"), ("preempt", "preempt"))
        found = [f"{word}={said[field]}" for field, word in named if said[field]]
        lines = said["more"].replace(",", "\n").splitlines()
        return [*found, *(line.strip() for line in lines if line.strip())]
