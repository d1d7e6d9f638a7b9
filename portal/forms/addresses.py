"""Forms of mail addresses."""

from __future__ import annotations

from django import forms

from accounts.services.addresses.asking import MAX_REASON


class AddressForm(forms.Form):
    """Another mail address of one's own; the service says whether it is one."""

    email = forms.CharField(
        label="New mail address",
        max_length=254,
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
