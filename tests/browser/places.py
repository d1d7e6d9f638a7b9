"""Addresses of every page, for the tests and for the gallery."""

from __future__ import annotations

PUBLIC = ("/accounts/login/", "/accounts/password/reset/")


def addresses(job_id: int, node: str = "alpha") -> list[str]:
    """Pages of somebody signed in; `job_id` is a finished job."""
    return [
        "/",
        "/jobs/",
        "/jobs/new/",
        "/jobs/new/?from=sample",
        *(
            f"/jobs/{job_id}/{tab}"
            for tab in ("", "logs/", "files/", "metrics/", "events/", "spec/", "cost/")
        ),
        "/search/?q=g",
        "/queue/",
        "/bookings/",
        "/cluster/",
        "/cluster/?metric=use",
        "/cluster/timeline/?span=6h",
        "/cluster/nodes/",
        f"/cluster/nodes/{node}/",
        "/cluster/enrol/",
        "/teams/",
        "/teams/vision/",
        "/teams/vision/quota/",
        "/usage/",
        "/finance/",
        "/finance/reports/period-summary/",
        "/finance/reports/capacity/",
        "/finance/reports/job-cost/",
        "/finance/focus/",
        "/finance/schedules/",
        "/requests/",
        "/requests/new/",
        "/approvals/?state=all",
        "/finance/periods/",
        "/finance/adjustments/",
        "/finance/prices/",
        "/finance/budgets/",
        "/finance/terms/",
        "/finance/assets/",
        "/finance/costs/",
        "/audit/",
        "/settings/tokens/",
        "/settings/secrets/",
        "/settings/profile/",
        "/settings/roles/",
        "/settings/delegations/",
        "/teams/vision/services/",
        "/help/",
        "/styleguide/",
        "/api/docs/",
    ]
