"""What an alert does beside telling people: no new jobs, or starts on borrowed GPUs only."""

from __future__ import annotations

from datetime import datetime

from django.db.models import F

from accounts.models import Project
from scheduler.models import AlertAction, Budget, BudgetAlert
from scheduler.services.sharing.tree import line_of, whose_account
from scheduler.spec import SpecInvalid, SpecProblem


def alerted(action: AlertAction, now: datetime) -> dict[str, Budget]:
    """By account key: budgets in force whose alert takes this action now; one query."""
    alerts = BudgetAlert.objects.filter(
        budget__action=action,
        budget__action_at=F("threshold"),
        budget__version=F("version"),
        budget__valid_from__lte=now,
        budget__valid_until__gt=now,
    ).select_related("budget__account")
    return {alert.budget.account.key: alert.budget for alert in alerts}


def refuse_blocked(project: Project, now: datetime) -> None:
    """Raises SpecInvalid if a budget on the way to the root lets nobody submit any more."""
    blocked = alerted(AlertAction.BLOCK_SUBMITS, now)
    for key in sorted(line_of(project) & blocked.keys() if blocked else ()):
        budget = blocked[key]
        whose = whose_account(budget.account, project) or "all teams"
        words = (
            f"the budget of {whose} lets nobody submit since its alert at "
            f"{budget.get_action_at_display()}; it ends on {budget.valid_until:%Y-%m-%d}. Submit "
            "to another project, or ask for a larger budget"
        )
        raise SpecInvalid([SpecProblem("project", words)])
