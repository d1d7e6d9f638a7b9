"""Roles of the organisation: who holds them, and what every role may do."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render

from accounts.errors import DomainError, Forbidden
from accounts.models import OrganisationRole, User
from accounts.permissions import can
from accounts.policy import COLUMNS, ORGANISATION, TABLE
from accounts.selectors import get_person, role_grants
from accounts.services import confirm_role, give_role, take_role
from portal.forms.people import GrantForm
from portal.pages.access import page, said_and_back, viewer_of

# What the page is about stands first: on a phone the rest lies off the screen.
_COLUMNS = sorted(COLUMNS, key=lambda column: not column.startswith(ORGANISATION))
_KINDS = {"cluster": "The cluster", "team": "A team", "project": "A project"}
# Every action of the table of rights, as the pages call what it opens.
_SAID = {
    "view_project": "See it, its jobs and its rules",
    "submit_job": "Submit jobs, start sessions",
    "read_log": "Read logs, specs and files of jobs",
    "read_metrics": "See charts of GPUs and nodes",
    "view_costs": "See its costs",
    "manage_project": "Change it, and anybody's jobs in it",
    "view_team": "See it, its quota and its people",
    "manage_team": "Let people in and out, make projects, set rules",
    "manage_service_accounts": "Create and end service accounts",
    "approve_requests": "Approve its requests for quota",
    "delegate_rights": "Let somebody act for them",
    "operate_cluster": "Drain nodes; set pools, queues and limits",
    "see_jobs": "See that a job exists, whoever runs it",
    "read_settings": "Read rules and settings",
    "read_usage": "Read everybody's use of GPUs",
    "read_books": "Read everybody's costs, prices and months",
    "keep_books": "Set prices, close months",
    "read_audit": "Read who changed what",
    "decide_spending": "Decide on requests for finance",
    "decide_requests": "Decide on requests for the cluster",
    "administer_cluster": "Manage people, give roles, change settings",
}


def _table() -> list[tuple[str, list[tuple[str, list[bool]]]]]:
    """The table of rights by kind of thing: action, and a cell for each column."""
    return [
        (
            _KINDS[kind],
            [
                (_SAID[action], [column in roles for column in _COLUMNS])
                for action, roles in TABLE[kind].items()
            ],
        )
        for kind in _KINDS
    ]


@page("GET", "POST")
def role_list(request: HttpRequest) -> HttpResponseBase:
    """Who holds which role; administrators give one here."""
    viewer = viewer_of(request)
    grants = role_grants(viewer)
    form = GrantForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            person = get_person(viewer, form.cleaned_data["username"])
            grant = give_role(actor=viewer, user=person, role=form.cleaned_data["role"])
        except Forbidden:
            raise
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            who, role = person.get_full_name(), grant.get_role_display().lower()
            waits = "" if grant.confirmed_at else " once another administrator confirms it"
            messages.success(request, f"{who} is {role}{waits}.")
            return redirect("roles:list")
    context = {
        "grants": grants,
        "form": form,
        "may_give": can(viewer, "administer_cluster", None),
        "columns": [column.partition(":")[::2] for column in _COLUMNS],
        "table": _table(),
    }
    return render(request, "people/roles.html", context)


def _wanted(request: HttpRequest) -> tuple[User, str]:
    """The person and the role that a button means."""
    role = request.POST.get("role", "")
    return get_person(viewer_of(request), request.POST.get("username", "")[:150]), role


@page("POST")
def role_confirm(request: HttpRequest) -> HttpResponseBase:
    """The second person's word for an administrator."""
    person, role = _wanted(request)

    def act() -> str:
        confirm_role(actor=viewer_of(request), user=person, role=role)
        return f"{person.get_full_name()} is {OrganisationRole(role).label.lower()} now."

    return said_and_back(request, act, "roles:list")


@page("POST")
def role_take(request: HttpRequest) -> HttpResponseBase:
    """End a role, or withdraw one that waits."""
    person, role = _wanted(request)

    def act() -> str:
        take_role(actor=viewer_of(request), user=person, role=role)
        word = OrganisationRole(role).label.lower()
        return f"{person.get_full_name()} is no longer {word}."

    return said_and_back(request, act, "roles:list")
