"""A template as people write it: a job in YAML, and a line for each field that is not free."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from django import forms

from accounts.models import Team
from scheduler.spec import SpecInvalid, read_document
from scheduler.spec.rules import Rules, read_rule_lines, written_rules


def text_area(label: str, hint: str, rows: int, placeholder: str = "") -> forms.CharField:
    """A field for text of many lines."""
    attrs = {"class": "mono", "rows": rows, "spellcheck": "false", "placeholder": placeholder}
    return forms.CharField(
        label=label,
        help_text=hint,
        required=False,
        strip=False,
        max_length=256 * 1024,
        widget=forms.Textarea(attrs=attrs),
    )


class VersionForm(forms.Form):
    """What a version says. After `is_valid`, `sent` has its document and rules."""

    spec = text_area("Job", "YAML; what is left out is left to the job.", 16)
    rules = text_area(
        "Rules",
        "A line each: field: locked, a range, or choices. Other fields are free.",
        6,
        "tier: locked\ngpus_per_node: 1..8\ntime_limit: ..12h\npool: default, h100",
    )
    note = forms.CharField(
        label="What is new", max_length=255, required=False, widget=forms.TextInput()
    )

    sent: dict[str, Any]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        self.sent = {}
        for field, read in (("spec", read_document), ("rules", read_rule_lines)):
            text = str(cleaned.get(field, "")).replace("\r\n", "\n")
            try:
                self.sent[field] = read(text) if text.strip() else {}
            except SpecInvalid as refused:
                self.add_problems(refused)
        return cleaned

    def add_problems(self, refused: SpecInvalid) -> None:
        """Beside the part of the template that they are about."""
        for problem in refused.problems:
            is_rule = problem.field.partition(".")[0] == "rules"
            named = problem.field.removeprefix("rules.").removeprefix("document")
            words = f"{named} {problem.message}".strip()
            self.add_error("rules" if is_rule else "spec", words[:1].upper() + words[1:] + ".")


class TemplateForm(VersionForm):
    """A new template."""

    name = forms.CharField(label="Name", max_length=128, widget=forms.TextInput())
    team = forms.ChoiceField(label="Team", choices=())
    description = forms.CharField(
        label="What it is for", required=False, max_length=4096, widget=forms.TextInput()
    )
    is_public = forms.BooleanField(label="Public: everybody may use it", required=False)
    field_order = ("name", "team", "description", "is_public", "spec", "rules")

    def __init__(self, *args: Any, teams: Iterable[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["note"]
        cast(forms.ChoiceField, self.fields["team"]).choices = [(t.slug, t.name) for t in teams]


def rule_text(rules: Rules) -> str:
    """The lines that `read_rule_lines` takes."""
    return "\n".join(f"{field}: {rule}" for field, rule in written_rules(rules).items())
