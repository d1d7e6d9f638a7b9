"""What is replayed, and under which other rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from portal.forms.cluster.policies import ORDER_HELP
from scheduler.engine.policy import ORDER_WORDS, PLACEMENT_WORDS
from scheduler.services.simulating.scenarios import MOST_HOURS

AS_IS = ("", "as it is")
ALL_POOLS = ("*", "all pools together")


class ScenarioForm(forms.Form):
    """The last hours of a pool, and what would be different."""

    pool = forms.ChoiceField(label="Pool", choices=())
    hours = forms.IntegerField(
        label="Last hours", min_value=1, max_value=MOST_HOURS, initial=24,
        help_text="Jobs that were submitted then and have ended.",
    )  # fmt: skip
    order = forms.ChoiceField(
        label="Who is next", required=False, help_text=ORDER_HELP,
        choices=[AS_IS, *((str(one), said) for one, said in ORDER_WORDS.items())],
    )  # fmt: skip
    preempt = forms.ChoiceField(
        label="May stop others", choices=[AS_IS, ("yes", "yes"), ("no", "no")], required=False,
        help_text="Jobs of lower tiers, and those that run on what is lent: with smallest share or "
        "oldest first.",
    )  # fmt: skip
    placement = forms.ChoiceField(
        label="Which nodes a job takes", required=False,
        choices=[AS_IS, *((str(one), said) for one, said in PLACEMENT_WORDS.items())],
        help_text="Least fragmentation is a published rule, to compare with: no pool can have it.",
    )  # fmt: skip
    nodes = forms.IntegerField(
        label="Nodes", min_value=1, max_value=100_000, required=False,
        help_text="Of one pool. Empty: as many as there are.",
    )  # fmt: skip
    more = forms.CharField(
        label="Pools, teams and faults", max_length=2000, required=False,
        help_text="One change a line. Teams: weight, guaranteed or maximum. Nodes: lose, drain or "
        "restore, at a second. Of one of several pools: nodes:gpu-a=12, policy:gpu-a=fair, "
        "maximum:vision@gpu-a=16, lose:gpu-a/3@3600.",
        widget=forms.Textarea(
            attrs={"rows": 3, "placeholder": "weight:vision=2\nmaximum:vision=16\nlose:3@3600"}
        ),
    )  # fmt: skip
    name = forms.CharField(label="Name", max_length=80, required=False)

    def __init__(self, *args: Any, pools: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = cast(forms.ChoiceField, self.fields["pool"])
        names = [(name, name) for name in pools]
        field.choices = [*names, ALL_POOLS] if len(names) > 1 else names

    def changes(self) -> list[str]:
        """In the simulator's words, the policy before what depends on it."""
        said = self.cleaned_data
        fields = ("nodes", "order", "preempt", "placement")
        words = {"order": "policy"}
        found = [f"{words.get(name, name)}={said[name]}" for name in fields if said[name]]
        lines = said["more"].replace(",", "\n").splitlines()
        return [*found, *(line.strip() for line in lines if line.strip())]
