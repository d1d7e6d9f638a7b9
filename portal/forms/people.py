"""Forms of people: roles of the organisation."""

from __future__ import annotations

from django import forms

from accounts.models import OrganisationRole


class GrantForm(forms.Form):
    """Who, and which role of the organisation; the service says who may."""

    username = forms.CharField(label="User name", max_length=150, strip=True)
    role = forms.ChoiceField(
        label="Role", choices=OrganisationRole.choices, initial=OrganisationRole.AUDITOR
    )
