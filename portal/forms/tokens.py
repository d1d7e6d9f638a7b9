"""Forms of a person's own settings."""

from __future__ import annotations

from typing import Any

from django import forms

from accounts.models import User
from accounts.selectors import named_project
from accounts.services import SCOPES

_WORDS = {
    "jobs:read": "see jobs, arrays, sessions and the queue; projects, quotas, caps, ceilings, "
    "headroom, budgets, policies (of pools, too), requests, bookings, templates, drafts, "
    "schedules, bulk cancels, retention, rules of projects, names of secrets and who watches what",
    "jobs:write": "submit, change, cancel, hold and release jobs, arrays and sessions; order the "
    "queue, set secrets, write templates, drafts, schedules and bookings, propose bulk cancels and "
    "give the second word",
    "logs:read": "read logs, specs and outputs of jobs, and what comes from inside of them: "
    "warnings, the evidence of a failure, paths of checkpoints, what a schedule submits",
    "nodes:read": "see nodes, pools, licences, data sets, maintenance windows and simulations",
    "nodes:write": "drain, quarantine and retire nodes, issue enrolment tokens; set pools, the "
    "queue, quotas, grants, caps, ceilings, policies, budgets, headroom, licences, data sets, "
    "maintenance windows and simulations (operators; some of it leads)",
    "costs:read": "see costs, prices, months, reports and their files",
    "requests:write": "ask for quota, decide on requests, and set their rules",
    "people:read": "see people, your mail address, teams, roles, what groups give, who acts for "
    "whom, service accounts, webhooks, chats, notices, what you watch and views",
    "audit:read": "read who changed what (as far as you may)",
    "people:write": "give and take roles, let people in and out, make and move teams, end who acts "
    "for whom; cancel mail addresses that wait, or send their links again; set what groups give, "
    "retention, rules of projects, webhooks, chats, notices, what you watch and views (as far as "
    "you may)",
}


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


class TokenForm(BoundsForm):
    """A new API token."""

    name = forms.CharField(
        label="Name", max_length=128, help_text="Where it will be used: laptop, nightly CI."
    )
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=[(scope, f"{scope} – {_WORDS[scope]}") for scope in SCOPES],
        initial=["jobs:read", "jobs:write", "logs:read"],
        widget=forms.CheckboxSelectMultiple,
    )
    expires_in_days = forms.IntegerField(
        label="Expires in days", min_value=1, max_value=365, initial=90
    )


class ProfileForm(forms.Form):
    """How others see a person."""

    display_name = forms.CharField(label="Name shown to others", max_length=128, required=False)
