"""Who gets what from a page or a GET of the API: the classes that `table.py` names."""

from __future__ import annotations

from typing import Final

# member lead above finance operator admin auditor: of their own team's, of another team's.
CLASSES: Final[dict[str, tuple[str, str]]] = {
    # Whoever signs in.
    "everybody": (
        "200 200 200 200 200 200 200",
        "200 200 200 200 200 200 200",
    ),
    # Who works there, leads above, or runs, pays for or audits the cluster.
    "see": (
        "200 200 200 200 200 200 200",
        "404 404 404 200 200 200 200",
    ),
    # The same without finance and auditors.
    "measure": (
        "200 200 200 403 200 200 403",
        "404 404 404 403 200 200 403",
    ),
    # Who works there, leads above, pays or audits; no operators.
    "cost": (
        "200 200 200 200 403 200 200",
        "404 404 404 200 403 200 200",
    ),
    # Who works there or leads above: logs, specs and code.
    "read": (
        "200 200 200 403 403 200 403",
        "404 404 404 403 403 200 403",
    ),
    # The same, of what nobody else is told whether it is there.
    "inside": (
        "200 200 200 404 404 200 404",
        "404 404 404 404 404 200 404",
    ),
    # Who runs the cluster.
    "operate": (
        "403 403 403 403 200 200 403",
        "403 403 403 403 200 200 403",
    ),
    # Who is in the team, leads above, pays or audits.
    "team": (
        "200 200 200 200 404 200 200",
        "404 404 404 200 404 200 200",
    ),
    # Leads their own and those below, finance and auditors all; nobody else is told of it.
    "team_costs": (
        "404 200 200 200 404 200 200",
        "404 404 404 200 404 200 200",
    ),
    # Leads their own, operators the cluster's, auditors all of it.
    "audit": (
        "403 200 200 403 200 200 200",
        "403 200 200 403 200 200 200",
    ),
    # Who runs, pays for or audits the cluster.
    "settings": (
        "403 403 403 200 200 200 200",
        "403 403 403 200 200 200 200",
    ),
    # Who might end these jobs as well: whose they are, who leads there or above, operators.
    "second": (
        "200 200 200 404 200 200 404",
        "404 404 404 404 200 200 404",
    ),
    # Finance and auditors.
    "books": (
        "403 403 403 200 403 200 200",
        "403 403 403 200 403 200 200",
    ),
    # A thing of the books: who may not read them is not told whether it is there.
    "books_thing": (
        "404 404 404 200 404 200 200",
        "404 404 404 200 404 200 200",
    ),
    # Leads their own, finance and auditors all.
    "report": (
        "403 200 200 200 403 200 200",
        "403 200 200 200 403 200 200",
    ),
    # The same, of a month that nobody closed.
    "books_of_no_month": (
        "403 403 403 404 403 404 404",
        "403 403 403 404 403 404 404",
    ),
    # Who leads any team.
    "lead_any": (
        "403 200 200 403 403 200 403",
        "403 200 200 403 403 200 403",
    ),
    # Who leads the team or above it; who else sees the team is told so.
    "lead_theirs": (
        "403 200 200 403 404 200 403",
        "404 404 404 403 404 200 403",
    ),
    # Who sets a cluster up, and looks after it: nobody else is told whether it is there.
    "welcome": (
        "404 404 404 404 200 200 404",
        "404 404 404 404 200 200 404",
    ),
    # The same, of what is not done yet.
    "welcome_open": (
        "404 404 404 404 409 409 404",
        "404 404 404 404 409 409 404",
    ),
    # Administrators.
    "admin": (
        "404 404 404 404 404 200 404",
        "404 404 404 404 404 200 404",
    ),
    # Whose it is.
    # Whose it is; of others who sees it is told that they may not.
    "owner": (
        "200 403 403 403 403 403 403",
        "404 404 404 403 403 403 403",
    ),
    "own": (
        "200 404 404 404 404 404 404",
        "404 404 404 404 404 404 404",
    ),
    # Nothing was billed in this world, so nobody finds it.
    "nothing_there": (
        "404 404 404 404 404 404 404",
        "404 404 404 404 404 404 404",
    ),
}
