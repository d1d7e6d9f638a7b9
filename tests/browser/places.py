"""Addresses of every page and whose they are, for the tests and for the gallery.

`architecture/test_places.py` compares them with the budgets, which have a row for every page.
"""

from __future__ import annotations

from collections.abc import Mapping

# For whoever has not signed in.
PUBLIC = (
    "/accounts/login/",
    "/accounts/password/reset/",
    "/invitations/{secret}/",
    "/addresses/confirm/{address_confirm}/",
    "/addresses/undo/{address_undo}/",
)
# Tabs of a finished job, and pages of one that waits.
_TABS = ("", "logs/", "logs/ranks/", "files/", "metrics/", "events/", "spec/", "cost/")
_WAITING = ("", "why/options/", "why/quote/", "why/before/", "change/")
# By who uses them most; `{job}` and the like are numbers of `seeding.furnish`.
PLACES: Mapping[str, tuple[str, ...]] = {
    "alice": (
        "/",
        "/jobs/",
        "/jobs/new/",
        "/jobs/compare/?id={job},{waiting}",
        "/jobs/new/?from=sample",
        "/jobs/new/?template={template}",
        "/jobs/new/start/",
        *(f"/jobs/{{job}}/{tab}" for tab in _TABS),
        "/jobs/{failed}/",
        *(f"/jobs/{{waiting}}/{tab}" for tab in _WAITING),
        "/sets/{set}/",
        "/schedules/",
        "/schedules/new/",
        "/schedules/{schedule}/",
        "/schedules/{schedule}/change/",
        "/templates/",
        "/templates/{template}/",
        "/search/?q=g",
        "/sessions/",
        "/sessions/new/",
        "/sessions/{session}/",
        "/queue/",
        "/bookings/",
        "/cluster/?metric=use",
        "/cluster/",
        "/cluster/timeline/?span=6h",
        "/cluster/free/?span=6h&need=12",
        "/usage/",
        "/usage/waste/",
        "/requests/",
        "/requests/new/",
        "/requests/{asked}/",
        "/notifications/",
        "/settings/notifications/",
        "/settings/notifications/when/",
        "/settings/channels/",
        "/settings/channels/{channel}/",
        "/settings/tokens/",
        "/settings/secrets/",
        "/settings/profile/",
        "/settings/scope/",
        "/help/",
        "/api/docs/",
    ),
    "lena": (
        "/templates/new/",
        "/templates/{template}/version/",
        "/teams/",
        "/teams/vision/",
        "/teams/vision/members/",
        "/teams/vision/quota/",
        "/teams/vision/prices/",
        "/teams/vision/projects/digits/retention/",
        "/teams/vision/projects/digits/idle/",
        "/teams/vision/services/",
        "/approvals/?state=all",
        "/settings/delegations/",
    ),
    "olga": (
        "/welcome/",
        "/cluster/nodes/",
        "/cluster/nodes/{node}/",
        "/cluster/enrol/",
        "/cluster/several/?node={node}",
        "/cluster/pools/default/",
        "/cluster/pools/default/?name=las",
        "/cluster/pools/default/idle/",
        "/cluster/simulator/",
        "/cluster/simulator/{scenario}/",
        "/ops/health/",
        "/approvals/rules/?kind=borrow",
        "/approvals/cancels/{cancel}/",
        "/audit/",
        "/announcements/",
    ),
    "frida": (
        "/finance/",
        "/finance/reports/period-summary/",
        "/finance/reports/capacity/",
        "/finance/reports/job-cost/",
        "/finance/focus/",
        "/finance/exports/",
        "/finance/schedules/",
        "/finance/periods/",
        "/finance/adjustments/",
        "/finance/prices/",
        "/finance/budgets/",
        "/finance/terms/",
        "/finance/assets/",
        "/finance/assets/{asset}/retire/",
        "/finance/centres/",
        "/finance/costs/",
    ),
    "admin": (
        "/ops/users/",
        "/ops/users/alice/",
        "/ops/webhooks/",
        "/settings/preview/",
        "/settings/roles/",
        "/settings/groups/",
        "/styleguide/",
    ),
}
# Where else a page is looked at: it needs a closed month, or is only a part of another one.
ELSEWHERE: Mapping[str, str] = {
    "finance:statement": "test_closing.py (console, widths, axe), past.py",
    "jobs:glance": "a panel beside the list of jobs: test_glance.py",
    "jobs:why": "a panel, fetched by the page of its job",
    "jobs:progress": "a panel, fetched by the page of its job",
    "jobs:log_lines": "lines of a log, fetched by its page",
    "jobs:log_find": "hits of a search, fetched by its page",
}


def places_of(
    person: str, things: Mapping[str, int | str], places: tuple[str, ...] | None = None
) -> list[str]:
    """Addresses of the pages that are theirs before all others'."""
    known = {"node": "alpha", **things}
    return [one.format(**known) for one in (PLACES[person] if places is None else places)]


def addresses(things: Mapping[str, int | str]) -> list[str]:
    """All pages of somebody signed in who may see everything."""
    return [one for person in PLACES for one in places_of(person, things)]
