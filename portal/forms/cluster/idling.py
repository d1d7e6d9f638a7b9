"""A rule for jobs whose GPUs do little."""

from __future__ import annotations

from typing import Any

from django import forms

from scheduler.models import IdleRule
from scheduler.services.idling.rules import BOUNDS, IdleTerms
from scheduler.services.idling.trying import MAX_DAYS
from scheduler.states import IDLE_ACT_WORDS, IdleAct

_USUAL_DAYS = 7


def _whole(label: str, hint: str, field: str, **more: Any) -> forms.IntegerField:
    least, most = BOUNDS[field]
    return forms.IntegerField(
        label=label,
        min_value=least,
        max_value=most,
        help_text=hint,
        error_messages={"invalid": f"Write a whole number, {least} to {most}."},
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
        **more,
    )


class IdleRuleForm(forms.Form):
    """What a rule says, and over how many days it is tried."""

    below_percent = _whole(
        "Does little below, in % of use",
        "Every reading of every GPU of the job lies below it.",
        "below_percent",
    )
    warn_minutes = _whole("Warn after, in minutes", "It did little all that time.", "warn_minutes")
    first_minutes = _whole(
        "Leave out the first, in minutes",
        "Of each attempt, which starts and loads data then.",
        "first_minutes",
    )
    act = forms.ChoiceField(
        label="What follows", choices=[(str(act), words) for act, words in IDLE_ACT_WORDS.items()]
    )
    act_minutes = _whole(
        "It follows the warning after, in minutes",
        "The owner may answer until then. Leave it empty where nothing but the warning follows.",
        "act_minutes",
        required=False,
    )
    keep_hours = _whole(
        "The owner may keep it for, in hours",
        "In all for one attempt, each time with a reason.",
        "keep_hours",
    )
    try_days = forms.IntegerField(
        label="Try it on the past, in days",
        min_value=1,
        max_value=MAX_DAYS,
        required=False,
        initial=_USUAL_DAYS,
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )

    @classmethod
    def of(cls, rule: IdleRule | None) -> IdleRuleForm:
        """As the rule is, or as one usually begins."""
        usual = IdleTerms(act=IdleAct.PAUSE, act_minutes=30)
        of = usual if rule is None else rule
        initial = {name: getattr(of, name) for name in IdleTerms.__slots__}
        return cls(initial={**initial, "try_days": _USUAL_DAYS})

    def terms(self) -> IdleTerms:
        """As the service takes it; minutes more mean nothing where it is only told."""
        said = {name: self.cleaned_data[name] for name in IdleTerms.__slots__}
        if said["act"] == IdleAct.TELL:
            said["act_minutes"] = None
        return IdleTerms(**said)

    def days(self) -> int:
        """Over how many days it is tried."""
        return self.cleaned_data.get("try_days") or _USUAL_DAYS
