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


def roles_offered(*, may_operate: bool) -> list[tuple[str, str]]:
    """The roles that somebody may give: only operators make operators."""
    return [(role, word) for role, word in Role.choices if may_operate or role != Role.OPERATOR]


class InviteForm(forms.Form):
    """Whom to ask in, and as what."""

    email = forms.EmailField(label="E-mail", max_length=254)
    role = forms.ChoiceField(label="Role", choices=Role.choices, initial=Role.MEMBER)

    def offer(self, roles: list[tuple[str, str]]) -> InviteForm:
        """Show only these; what is sent all the same is refused by the service, with its reason."""
        self.fields["role"].widget.choices = roles
        return self


class RenameForm(forms.Form):
    """Another name; the short one stays."""

    name = forms.CharField(label="Name", max_length=128, strip=True)


class CostCentreForm(forms.Form):
    """Where the organisation's own books put what a team costs."""

    code = forms.CharField(
        label="Code",
        max_length=32,
        required=False,
        strip=True,
        help_text="As in the organisation's own books, such as CC-4100; empty for none.",
    )
    name = forms.CharField(
        label="What it is called",
        max_length=128,
        required=False,
        strip=True,
        help_text="May stay empty; for all teams of this cost centre.",
    )


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


def _days(label: str) -> forms.IntegerField:
    return forms.IntegerField(
        label=label,
        min_value=1,
        max_value=36_500,
        required=False,
        help_text="Days after a job's end; empty for the default.",
        error_messages={"invalid": "Write whole days, such as 90."},
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )


class RetentionForm(forms.Form):
    """For how long a project keeps what its jobs left."""

    log_days = _days("Logs")
    file_days = _days("Files")
    sample_days = _days("Readings of GPUs")
