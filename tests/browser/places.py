"""Addresses of every page, for the tests and for the gallery."""

from __future__ import annotations

PUBLIC = ("/accounts/login/", "/accounts/password/reset/")
TABS = ("", "change/", "logs/", "logs/ranks/", "files/", "metrics/", "events/", "spec/", "cost/")
OPEN = (
    "/",
    "/jobs/",
    "/jobs/new/",
    "/jobs/compare/?id=1,2",
    "/jobs/new/?from=sample",
    "/jobs/new/start/",
    "/templates/",
    "/templates/new/",
    "/search/?q=g",
    "/sessions/",
    "/sessions/new/",
    "/queue/",
    "/bookings/",
    "/cluster/timeline/?span=6h",
    "/cluster/?metric=use",
    "/cluster/",
    "/cluster/nodes/",
    "/cluster/enrol/",
    "/ops/health/",
    "/cluster/pools/default/",
    "/cluster/pools/default/?name=las",
    "/cluster/simulator/",
    "/cluster/several/?node=alpha",
    "/teams/",
    "/teams/vision/",
    "/teams/vision/members/",
    "/teams/vision/quota/",
    "/teams/vision/prices/",
    "/teams/vision/projects/digits/retention/",
    "/usage/",
    "/requests/",
    "/requests/new/",
    "/approvals/?state=all",
    "/approvals/rules/?kind=borrow",
    "/audit/",
    "/announcements/",
    "/ops/webhooks/",
    "/notifications/",
    "/settings/notifications/",
    "/settings/tokens/",
    "/settings/secrets/",
    "/settings/profile/",
    "/settings/preview/",
    "/settings/scope/",
    "/settings/roles/",
    "/settings/delegations/",
    "/teams/vision/services/",
    "/help/",
    "/styleguide/",
    "/api/docs/",
)
MONEY = (
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
    "/finance/centres/",
    "/finance/costs/",
)


def addresses(job_id: int, node: str = "alpha") -> list[str]:
    """Pages of somebody signed in; `job_id` is a finished job."""
    jobs = [f"/jobs/{job_id}/{tab}" for tab in TABS]
    return [*OPEN, *jobs, f"/cluster/nodes/{node}/", *MONEY]
