"""A schedule as people write it: a job in YAML, and when it comes again."""

from __future__ import annotations

from typing import Any

from django import forms

from portal.forms.cluster.bookings import MomentField
from portal.forms.composing.templates import text_area
from scheduler.services.recurring.terms import BOUNDS, Terms
from scheduler.spec import SpecInvalid, read_document
from scheduler.spec.recurring.rules import MAX_RULE
from scheduler.spec.recurring.words import OVERLAP_WORDS
from scheduler.spec.units import format_duration, parse_duration

_OVERLAPS = [(str(one), words) for one, words in OVERLAP_WORDS.items()]


def _whole(name: str, label: str, hint: str) -> forms.IntegerField:
    least, most = BOUNDS[name]
    return forms.IntegerField(label=label, help_text=hint, min_value=least, max_value=most)


class _DurationField(forms.CharField):
    """Seconds, written as `1h30m` or the like, within the bounds of `late_within_s`."""

    def prepare_value(self, value: Any) -> Any:
        """As people write it."""
        return format_duration(value) if isinstance(value, int) else value

    def clean(self, value: Any) -> int:
        """Raises ValidationError."""
        least, most = BOUNDS["late_within_s"]
        try:
            seconds = parse_duration(super().clean(value))
        except ValueError as error:
            raise forms.ValidationError(f"{error}.") from None
        if not least <= seconds <= most:
            raise forms.ValidationError(f"Write at most {format_duration(most)} ({most} seconds).")
        return seconds


class ScheduleForm(forms.Form):
    """After `is_valid`, `sent` is the job's document as it was written, and `terms` the rest."""

    name = forms.CharField(label="Name", max_length=128)
    rule = forms.CharField(
        label="When",
        max_length=MAX_RULE,
        help_text="Minute, hour, day of month, month, day of week: 30 2 * * mon-fri. Or @hourly, "
        "@daily, @weekly, @monthly.",
        widget=forms.TextInput(attrs={"class": "mono", "placeholder": "30 2 * * mon-fri"}),
    )
    zone = forms.CharField(
        label="Time zone", max_length=64, help_text="Such as Europe/Berlin or UTC."
    )
    overlap = forms.ChoiceField(label="While an earlier one waits or runs", choices=_OVERLAPS)
    most_open = _whole("most_open", "At most at once", "Where each waits for the one before.")
    late_within_s = _DurationField(
        label="Make up for a missed time", help_text="Such as 1h; later than this it is left out."
    )
    pause_after = _whole("pause_after", "Pause after failures in a row", "0: never by itself.")
    starts_at = MomentField(label="From", required=False)
    ends_at = MomentField(label="Until", required=False)
    template = forms.CharField(required=False, max_length=110, widget=forms.HiddenInput())
    spec = text_area("Job", "YAML; the same fields as a job that is submitted once.", 16)

    sent: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["spec"].required = True

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        self.sent = {}
        text = str(cleaned.get("spec", "")).replace("\r\n", "\n")
        try:
            self.sent = read_document(text) if text.strip() else {}
        except SpecInvalid as refused:
            self.add_problems(refused)
        return cleaned

    @property
    def terms(self) -> dict[str, Any]:
        """Fields of `Terms`, as they were written."""
        names = Terms.__dataclass_fields__
        return {name: value for name, value in self.cleaned_data.items() if name in names}

    def add_problems(self, refused: SpecInvalid) -> None:
        """What is wrong with the job, beside it."""
        for problem in refused.problems:
            words = f"{problem.field} {problem.message}".strip()
            self.add_error("spec", words[:1].upper() + words[1:] + ".")
