"""What an alert does beside telling people: no new jobs, or starts on borrowed GPUs only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When

from accounts.models import Project
from accounts.statements import AskedOnce
from scheduler.models import AlertAction, Budget, BudgetAlert, CommitsAt, Enforcement
from scheduler.selectors.sharing.periods import in_force
from scheduler.services.sharing.tree import line_of, whose_account
from scheduler.spec import SpecInvalid, SpecProblem
from scheduler.states import until_words


def alerted(action: AlertAction, now: datetime) -> dict[str, Budget]:
    """By account key: budgets in force whose alert takes this action now; one query."""
    return {alert.budget.account.key: alert.budget for alert in ALERTED.read(str(action), now)}


def _alerted(action: str, now: datetime) -> QuerySet[BudgetAlert]:
    return BudgetAlert.objects.filter(
        budget__action=action,
        budget__action_at=F("threshold"),
        budget__version=F("version"),
        budget__valid_from__lte=now,
        budget__valid_until__gt=now,
    ).select_related("budget__account")


ALERTED = AskedOnce(_alerted)


def asked_at_submit(now: datetime) -> tuple[Budget, ...]:
    """Budgets in force that a submit has to look at, from the root down, with their accounts: those
    that commit then, and (`is_blocked`) those whose alert refuses it. One query."""
    return tuple(ASKED_AT_SUBMIT.read(now))


def _asked(now: datetime) -> QuerySet[Budget]:
    fired = BudgetAlert.objects.filter(
        budget=OuterRef("pk"),
        version=OuterRef("version"),
        threshold=OuterRef("action_at"),
    )
    blocks = Q(action=AlertAction.BLOCK_SUBMITS) & Exists(fired)
    budgets = in_force(now).annotate(is_blocked=Case(When(blocks, then=True), default=False))
    commits = Q(commits_at=CommitsAt.SUBMIT, enforcement=Enforcement.RESERVE)
    asked = budgets.filter(commits | Q(is_blocked=True))
    return asked.select_related("account__team", "account__project")


ASKED_AT_SUBMIT = AskedOnce(_asked)


def refuse_blocked(project: Project, budgets: Iterable[Budget]) -> None:
    """Raises SpecInvalid if one of `asked_at_submit` above the project lets nobody submit."""
    blocked = {one.account.key: one for one in budgets if getattr(one, "is_blocked", False)}
    for key in sorted(line_of(project) & blocked.keys() if blocked else ()):
        budget = blocked[key]
        whose = whose_account(budget.account, project) or "all teams"
        words = (
            f"the budget of {whose} lets nobody submit since its alert at "
            f"{budget.get_action_at_display()}; it holds "
            f"{until_words(budget.valid_until, budget.valid_from)}. Submit to another project, or "
            "ask for a larger budget"
        )
        raise SpecInvalid([SpecProblem("project", words)])
