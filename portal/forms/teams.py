"""Forms of teams: a new team or project, an invitation, joining."""

from __future__ import annotations

from django import forms

from accounts.models import Role


class NamedForm(forms.Form):
    """A name, checked by the service, and the short form that addresses use."""

    name = forms.CharField(label="Name", max_length=128, strip=True)
    slug = forms.CharField(
        label="Short name",
        max_length=63,
        required=False,
        help_text="Lower-case letters, digits and dashes; made from the name when left empty.",
    )


class ProjectForm(NamedForm):
    """A new project of a team."""

    description = forms.CharField(
        label="Description",
        max_length=4096,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2}),
    )


class InviteForm(forms.Form):
    """Whom to ask in, and as what."""

    email = forms.EmailField(label="E-mail", max_length=254)
    role = forms.ChoiceField(label="Role", choices=Role.choices, initial=Role.MEMBER)


class RoleForm(forms.Form):
    """Another role for a member."""

    role = forms.ChoiceField(label="Role", choices=Role.choices)


class JoinForm(forms.Form):
    """A new person who accepts an invitation."""

    username = forms.CharField(
        label="User name",
        max_length=150,
        help_text="Letters a-z, digits and . + - _",
        widget=forms.TextInput(attrs={"autocomplete": "username"}),
    )
    password = forms.CharField(
        label="Password",
        max_length=256,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
