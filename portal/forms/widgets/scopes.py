"""What a token may do, as people choose it."""

from __future__ import annotations

from typing import NamedTuple

from django import forms
from django.forms.boundfield import BoundWidget

# Every scope once: in two or three words, and all that it opens.
SHORT = {
    "jobs:read": "Jobs, queue and limits",
    "logs:read": "Logs, specs and outputs",
    "nodes:read": "Nodes, pools, data sets",
    "costs:read": "Costs, prices, reports",
    "people:read": "People, teams, roles",
    "audit:read": "Who changed what",
    "jobs:write": "Submit and cancel jobs",
    "requests:write": "Ask for and grant quota",
    "nodes:write": "Nodes, quotas, budgets",
    "people:write": "People, roles, teams",
}
OPENS = {
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
# What reaches beyond its holder's own work.
WIDE = ("requests:write", "nodes:write", "people:write")


class Offer(NamedTuple):
    """One scope of a form: its box, its name, what it opens in short and in full."""

    box: BoundWidget
    scope: str
    short: str
    opens: str


class Group(NamedTuple):
    """Scopes of one reach."""

    title: str
    is_wide: bool
    offers: list[Offer]


def scopes_field(offered: tuple[str, ...]) -> forms.MultipleChoiceField:
    """The choice among `offered`; what reading and running one's own jobs takes is ticked."""
    return forms.MultipleChoiceField(
        label="May",
        choices=[(scope, SHORT[scope]) for scope in SHORT if scope in offered],
        initial=["jobs:read", "jobs:write", "logs:read"],
        widget=forms.CheckboxSelectMultiple,
    )


class ScopedForm(forms.Form):
    """A form with the field `scopes`."""

    def scope_groups(self) -> list[Group]:
        """Its choices by how far they reach, the nearest first."""
        kept: tuple[list[Offer], ...] = ([], [], [])
        for box in self["scopes"]:
            scope = str(box.data["value"])
            reach = 2 if scope in WIDE else int(scope.endswith(":write"))
            kept[reach].append(Offer(box, scope, SHORT[scope], OPENS[scope]))
        titles = ("May read", "May change your work", "May change for others, too")
        return [Group(titles[n], n == 2, found) for n, found in enumerate(kept) if found]
