"""The one table of rights: which role may do what to which kind of thing.

A row is an action, named by verb and object; a column is a role. The first columns are roles in
a team, its service accounts among them, and count for that team and its projects (a lead's also
for the teams below); the last three are roles of the organisation and count everywhere.
Administrators may do everything, people without a role nothing. `accounts/permissions.py:can` reads
this table; nothing else tests roles.
"""

from __future__ import annotations

from typing import Final

from accounts.models.delegations import DelegationScope
from accounts.models.roles import OrganisationRole
from accounts.models.teams import Role

# The same word means another role in a team than in the organisation, so both say where.
TEAM: Final = "team:"
ORGANISATION: Final = "organisation:"
SERVICE_ACCOUNT: Final = TEAM + "service"
COLUMNS: Final = (
    TEAM + Role.MEMBER,
    TEAM + Role.LEAD,
    TEAM + Role.FINANCE,
    TEAM + Role.OPERATOR,
    SERVICE_ACCOUNT,
    ORGANISATION + OrganisationRole.FINANCE,
    ORGANISATION + OrganisationRole.OPERATOR,
    ORGANISATION + OrganisationRole.AUDITOR,
)
LEAD: Final = TEAM + Role.LEAD

_ROWS: Final[dict[str, dict[str, str]]] = {
    "project": {
        #                           in the team           organisation
        #                           mem led fin ope svc   fin ope aud
        "view_project": "            x   x   x   x   x     x   .   x",
        "submit_job": "              x   x   .   x   x     .   .   .",
        "read_log": "                x   x   .   x   x     .   .   .",
        "read_metrics": "            x   x   .   x   x     .   x   .",
        "view_costs": "              x   x   x   x   .     x   .   x",
        "manage_project": "          .   x   .   .   .     .   .   .",
    },
    "team": {
        "view_team": "               x   x   x   x   x     x   .   x",
        "view_costs": "              .   x   x   .   .     x   .   x",
        "manage_team": "             .   x   .   .   .     .   .   .",
        "manage_service_accounts": " .   x   .   .   .     .   .   .",
        "approve_requests": "        .   x   .   .   .     .   .   .",
        "delegate_rights": "         .   x   .   .   .     .   .   .",
    },
    "cluster": {
        "operate_cluster": "         .   .   .   x   .     .   x   .",
        "see_jobs": "                .   .   .   x   .     x   x   x",
        "read_settings": "           .   .   .   x   .     x   x   x",
        "read_usage": "              .   .   .   x   .     x   x   x",
        "read_books": "              .   .   .   .   .     x   .   x",
        "keep_books": "              .   .   .   .   .     x   .   .",
        "read_audit": "              .   .   .   .   .     .   .   x",
        "decide_spending": "         .   .   .   .   .     x   .   .",
        "decide_requests": "         .   .   .   .   .     .   .   .",
        "administer_cluster": "      .   .   .   .   .     .   .   .",
    },
}

# What a delegation lets the deputy do, as far as the giver may do it in their own right.
SCOPES: Final[dict[str, frozenset[tuple[str, str]]]] = {
    DelegationScope.APPROVE_REQUESTS: frozenset(
        {("team", "approve_requests"), ("cluster", "decide_requests")}
        | {("cluster", "decide_spending")}
    ),
    DelegationScope.MANAGE_TEAM: frozenset(
        {("team", "view_team"), ("team", "manage_team")}
        | {("project", "view_project"), ("project", "manage_project")}
    ),
}

# Shorter words for the same actions.
_SHORT: Final = {
    ("project", "view"): "view_project",
    ("team", "view"): "view_team",
    ("cluster", "operate"): "operate_cluster",
    ("cluster", "administer"): "administer_cluster",
}


def _read(marks: str) -> frozenset[str]:
    cells = marks.split()
    return frozenset(column for column, cell in zip(COLUMNS, cells, strict=True) if cell == "x")


TABLE: Final[dict[str, dict[str, frozenset[str]]]] = {
    kind: {action: _read(marks) for action, marks in rows.items()} for kind, rows in _ROWS.items()
}


def full_name(kind: str, action: str) -> str:
    """The action as the table spells it; raises KeyError for one that is not in it."""
    name = _SHORT.get((kind, action), action)
    if name not in TABLE[kind]:
        raise KeyError(action)
    return name


def roles_for(kind: str, action: str) -> frozenset[str]:
    """The columns that may do `action` to a thing of this kind: project, team or cluster."""
    return TABLE[kind][full_name(kind, action)]


def actions_of(kind: str, role: str) -> tuple[str, ...]:
    """What a column of the table may do to things of this kind."""
    return tuple(action for action, roles in TABLE[kind].items() if role in roles)
