"""Forms of a person's own settings."""

from __future__ import annotations

from typing import Any

from django import forms

from accounts.models import User
from accounts.selectors import named_project
from accounts.services import SCOPES
from portal.forms.widgets.scopes import ScopedForm, scopes_field


class BoundsForm(forms.Form):
    """What may narrow a token."""

    project = forms.CharField(
        label="For one project",
        max_length=160,
        required=False,
        help_text="team/project: it sees and submits nothing else. Empty: whatever you may.",
    )
    networks = forms.CharField(
        label="From these addresses",
        max_length=700,
        required=False,
        help_text="Such as 192.0.2.7 or 10.1.0.0/16, with commas. Empty: from anywhere.",
    )

    def bounds(self, viewer: User) -> dict[str, Any]:
        """All fields as services take them; of a valid form. Raises Invalid."""
        sent = self.cleaned_data
        networks = sent["networks"].replace(",", " ").split()
        return {**sent, "project": named_project(viewer, sent["project"]), "networks": networks}


class TokenForm(BoundsForm, ScopedForm):
    """A new API token."""

    name = forms.CharField(
        label="Name", max_length=128, help_text="Where it will be used: laptop, nightly CI."
    )
    scopes = scopes_field(SCOPES)
    expires_in_days = forms.IntegerField(
        label="Expires in days", min_value=1, max_value=365, initial=90
    )


class ProfileForm(forms.Form):
    """How others see a person."""

    display_name = forms.CharField(label="Name shown to others", max_length=128, required=False)
