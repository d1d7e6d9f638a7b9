"""Forms of people: roles of the organisation, deputies, accounts of programs, mail addresses."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from django import forms
from django.core.validators import MaxValueValidator

from accounts.models import DelegationScope, OrganisationRole
from accounts.selectors.addresses import MAX_EMAIL
from accounts.services import SERVICE_SCOPES
from accounts.services.audit import MAX_REASON
from portal.forms.tokens import BoundsForm
from portal.forms.widgets.scopes import ScopedForm, scopes_field

# Later than anybody means, and early enough to reckon with the day after it.
_LAST = MaxValueValidator(date(2999, 12, 31))


class GrantForm(forms.Form):
    """Who, and which role of the organisation; the service says who may."""

    username = forms.CharField(label="User name", max_length=150, strip=True)
    role = forms.ChoiceField(
        label="Role", choices=OrganisationRole.choices, initial=OrganisationRole.AUDITOR
    )


class GroupRuleForm(forms.Form):
    """A group elsewhere, and the role that it gives here; the service says which go together."""

    group = forms.CharField(
        label="Group",
        max_length=255,
        strip=True,
        help_text="As the provider tells it, such as /ml/vision or a number of Entra ID.",
    )
    team = forms.CharField(
        label="Team",
        max_length=63,
        required=False,
        strip=True,
        help_text="Its short name; a role of the whole organisation when left empty.",
    )
    role = forms.ChoiceField(
        label="Role",
        choices=[
            ("member", "Member (of a team)"),
            ("lead", "Lead (of a team)"),
            ("finance", "Finance"),
            ("operator", "Operator (of the organisation)"),
            ("auditor", "Auditor (of the organisation)"),
        ],
    )


class DelegationForm(forms.Form):
    """Who acts for me, in what, on which days; the service says who may."""

    deputy = forms.CharField(
        label="Who acts for you", max_length=150, strip=True, help_text="Their user name."
    )
    scope = forms.ChoiceField(label="In what", choices=DelegationScope.choices)
    team = forms.CharField(
        label="Team",
        max_length=63,
        required=False,
        help_text="Its short name; wherever you have the right when left empty.",
    )
    first_day = forms.DateField(
        label="First day",
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="In UTC.",
        validators=[_LAST],
    )
    last_day = forms.DateField(
        label="Last day",
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="The whole day.",
        validators=[_LAST],
    )
    reason = forms.CharField(label="Reason", max_length=255, required=False)

    def times(self, now: datetime) -> tuple[datetime, datetime]:
        """From the first moment of the first day, or now if that is today, to the end of the last.

        The days of a valid form only.
        """
        first = datetime.combine(self.cleaned_data["first_day"], time(), UTC)
        last = datetime.combine(self.cleaned_data["last_day"], time(), UTC)
        start = now if first.date() == now.astimezone(UTC).date() else first
        return start, last + timedelta(days=1)


class ServiceForm(forms.Form):
    """A new service account."""

    name = forms.CharField(
        label="Name", max_length=63, strip=True, help_text="It is called svc- and this name."
    )


class ServiceTokenForm(BoundsForm, ScopedForm):
    """A new token of a service account."""

    name = forms.CharField(label="Where it is used", max_length=128)
    scopes = scopes_field(SERVICE_SCOPES)
    expires_in_days = forms.IntegerField(
        label="Expires in days", min_value=1, max_value=365, initial=90
    )


class AddressForm(forms.Form):
    """Another mail address of one's own; the service says whether it is one."""

    email = forms.CharField(
        label="New mail address",
        max_length=MAX_EMAIL,
        strip=True,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )


class OthersAddressForm(AddressForm):
    """Somebody else's, with how and why."""

    how = forms.ChoiceField(
        label="How",
        choices=[
            ("link", "They confirm it: a link goes there, good for an hour, for who is signed in"),
            ("now", "At once, without their word: for who cannot sign in or follow a link"),
        ],
        initial="link",
        widget=forms.RadioSelect,
    )
    reason = forms.CharField(label="Reason", max_length=MAX_REASON, strip=True)
