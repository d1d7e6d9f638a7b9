"""The matrix of rights: for every GET page, GET of the API and topic, who gets what.

A class says what seven kinds of people get from their own team's and from another's. No route
without a row, no row without a route. The service account is a member, within its scopes.
"""

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
    # Nothing was billed in this world, so nobody finds it.
    "nothing_there": (
        "404 404 404 404 404 404 404",
        "404 404 404 404 404 404 404",
    ),
}

# Pages, by route.
PAGES: Final[dict[str, str]] = {
    "home": "everybody",
    "jobs:list": "everybody",
    "jobs:submit": "everybody",
    "jobs:start": "everybody",
    "templates:list": "everybody",
    "templates:new": "lead_any",
    "templates:detail": "team",
    "templates:version": "lead_theirs",
    "jobs:detail": "see",
    "jobs:why": "see",
    "jobs:options": "see",
    "jobs:before": "see",
    "jobs:quote": "cost",
    "jobs:change": "see",
    "jobs:events": "see",
    "jobs:metrics": "measure",
    "jobs:series": "measure",
    "jobs:cost": "cost",
    "jobs:spec": "read",
    "jobs:logs": "read",
    "jobs:log_lines": "read",
    "jobs:log_find": "read",
    "jobs:log_ranks": "read",
    "jobs:outputs": "read",
    "jobs:output": "read",
    "jobs:log_download": "read",
    "sets:detail": "see",
    "sessions:list": "everybody",
    "preview": "admin",
    "scope": "everybody",
    "sessions:new": "everybody",
    "sessions:detail": "see",
    "queue:list": "everybody",
    "bookings:list": "everybody",
    "nodes:list": "everybody",
    "nodes:enrol": "operate",
    "nodes:several": "operate",
    "nodes:detail": "everybody",
    "nodes:series": "everybody",
    "health": "operate",
    "pools:detail": "everybody",
    "simulator:list": "operate",
    "simulator:detail": "welcome",
    "teams:list": "everybody",
    "teams:board": "team",
    "teams:detail": "team",
    "teams:prices": "team_costs",
    "teams:quota": "see",
    "teams:retention": "team",
    "teams:services": "team",
    "invitation": "everybody",
    "costs:overview": "everybody",
    "audit:list": "audit",
    "roles:list": "settings",
    "finance:index": "everybody",
    "finance:periods": "books",
    "finance:adjustments": "books",
    "finance:prices": "books",
    "finance:terms": "books",
    "finance:assets": "books",
    "finance:asset_retire": "books_thing",
    "finance:centres": "books",
    "finance:costs": "books",
    "finance:budgets": "books",
    "finance:report": "report",
    "finance:statement": "nothing_there",
    "finance:schedules": "everybody",
    "finance:exports": "everybody",
    "finance:export_file": "nothing_there",
    "finance:focus": "books",
    "finance:focus_download": "books_of_no_month",
    "delegations:list": "everybody",
    "approval_rules": "settings",
    "requests:list": "everybody",
    "requests:new": "everybody",
    "approvals": "everybody",
    "requests:detail": "see",
    "tokens:list": "everybody",
    "secrets:list": "everybody",
    "announcements:list": "welcome",
    "webhooks:list": "admin",
    "users:list": "admin",
    "users:detail": "admin",
    "notifications:list": "everybody",
    "notification_settings": "everybody",
    "profile": "everybody",
    "help": "everybody",
    "search": "everybody",
    "jobs:compare": "everybody",
    "cluster_map": "everybody",
    "cluster_timeline": "everybody",
    "cluster_room": "everybody",
    "welcome": "welcome",
    "styleguide": "admin",
}

# GETs of the API, by address below /api/v1/.
API: Final[dict[str, str]] = {
    "templates/": "everybody",
    "templates/<slug:slug>/": "team",
    "drafts/": "everybody",
    "jobs/": "everybody",
    "jobs/<int:pk>/": "see",
    "jobs/<int:pk>/why/": "see",
    "jobs/<int:pk>/options/": "see",
    "jobs/<int:pk>/before/<int:other>/": "see",
    "scheduling/": "everybody",
    "jobs/<int:pk>/events/": "see",
    "jobs/<int:pk>/attempts/": "see",
    "jobs/<int:pk>/log/": "read",
    "jobs/<int:pk>/log/raw/": "read",
    "jobs/<int:pk>/outputs/": "read",
    "jobs/<int:pk>/outputs/<int:number>/": "read",
    "jobs/<int:pk>/samples/": "measure",
    "jobs/<int:pk>/cost/": "cost",
    "sets/": "everybody",
    "sets/<int:pk>/": "see",
    "sessions/": "everybody",
    "sessions/<int:pk>/": "see",
    "secrets/": "everybody",
    "notifications/": "everybody",
    "webhooks/": "admin",
    "webhooks/deliveries/": "admin",
    "views/": "everybody",
    "notifications/settings/": "everybody",
    "pools/": "everybody",
    "pools/<str:name>/policy/": "everybody",
    "nodes/": "everybody",
    "nodes/<str:name>/": "everybody",
    "nodes/tokens/": "operate",
    "windows/": "everybody",
    "bookings/": "everybody",
    "bookings/<int:pk>/": "see",
    "licences/": "everybody",
    "datasets/": "everybody",
    "simulator/": "operate",
    "simulator/trace/": "operate",
    "simulator/<int:pk>/": "welcome",
    "simulator/<int:pk>/trace/": "welcome_open",
    "queue/<slug:pool>/": "everybody",
    "costs/": "everybody",
    "rates/": "everybody",
    "rates/proposals/": "everybody",
    "rates/cards/": "everybody",
    "teams/<slug:slug>/prices/": "team_costs",
    "rates/endings/": "everybody",
    "finance/periods/": "books",
    "finance/adjustments/": "books",
    "finance/assets/": "books",
    "finance/cost-centres/": "books",
    "finance/costs/": "books",
    "finance/recovery/": "books",
    "finance/terms/": "books",
    "rules/quotas/": "everybody",
    "rules/budgets/": "everybody",
    "rules/caps/": "everybody",
    "rules/ceilings/": "everybody",
    "rules/headroom/": "everybody",
    "rules/policies/": "everybody",
    "audit/": "audit",
    "users/": "admin",
    "users/<str:username>/": "admin",
    "roles/": "settings",
    "finance/files/": "everybody",
    "finance/files/<int:pk>/": "nothing_there",
    "finance/reports/": "everybody",
    "finance/reports/<slug:slug>/": "report",
    "finance/reports/<slug:slug>/file/": "report",
    "teams/": "everybody",
    "teams/<slug:slug>/services/": "team",
    "delegations/": "everybody",
    "requests/": "everybody",
    "requests/policies/": "settings",
    "requests/<int:pk>/": "see",
    "me/": "everybody",
    "projects/": "everybody",
    "projects/<slug:team>/<slug:project>/retention/": "team",
    "tokens/": "everybody",
    "schema/": "everybody",
}
