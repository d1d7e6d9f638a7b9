"""The form that keeps a secret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from django import forms

from accounts.models import Project

# Nobody looks for one among more; its path is typed.
MOST_OFFERED = 100


class _Unseen(forms.Textarea):
    """An area whose content never comes back, not even beside an error."""

    def format_value(self, value: Any) -> str:
        """Nothing, whatever was sent."""
        return ""


class SecretForm(forms.Form):
    """A name and a value."""

    name = forms.CharField(
        label="Name",
        max_length=63,
        help_text="How jobs ask for it: hub-token. A known name gets a new value.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    value = forms.CharField(
        label="Value",
        strip=False,
        help_text="6 to 8192 bytes. Nobody can read it here again.",
        widget=_Unseen(attrs={"rows": 4, "autocomplete": "off", "spellcheck": "false"}),
    )
    project = forms.ChoiceField(label="For", required=False)

    def offer(self, projects: Sequence[Project]) -> SecretForm:
        """Let it be kept for one of these projects, too."""
        if len(projects) > MOST_OFFERED:
            self.fields["project"] = forms.CharField(
                label="For all of a project",
                required=False,
                max_length=130,
                help_text=f"One of {len(projects):,}, as team/project. Empty: for you alone.",
                widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
            )
        else:
            field = cast(forms.ChoiceField, self.fields["project"])
            field.choices = [("", "me alone"), *((p.path, f"all of {p.path}") for p in projects)]
        return self

    def clean_value(self) -> str:
        """As a file would hold it: browsers send a line's end as two characters."""
        return str(self.cleaned_data["value"]).replace("\r\n", "\n")
