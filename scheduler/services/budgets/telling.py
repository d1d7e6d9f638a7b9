"""Alerts of budgets, told to those who lead what it is for and to those who keep the books.

An alert is told once: its row is claimed in the transaction that writes the notifications, and
their mails are written from these.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from accounts.models import Role, User
from accounts.permissions import people_who_can
from scheduler.models import Budget, BudgetAlert, Threshold
from scheduler.selectors.sharing.budgets import printed_of
from scheduler.selectors.sharing.reckoning import Standing, figure_of
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind, until_words

_AT_ONCE = 50


def tell_alerts(*, now: datetime) -> int:
    """Tell what nobody was told yet; one query if there is nothing. Returns how many alerts."""
    waiting = BudgetAlert.objects.filter(told_at__isnull=True).select_related(
        "budget__account__team", "budget__account__project__team"
    )
    told = 0
    for alert in waiting.order_by("pk")[:_AT_ONCE]:
        told += _tell(alert, now)
    return told


@transaction.atomic
def _tell(alert: BudgetAlert, now: datetime) -> bool:
    once = BudgetAlert.objects.filter(pk=alert.pk, told_at__isnull=True)
    if not once.update(told_at=now):
        return False
    title, text, path = _words(alert)
    tell(
        [
            News(
                person_id=person.pk,
                kind=NoticeKind.BUDGET,
                subject=f"budget:{alert.budget_id}",
                title=title,
                text=text,
                path=path,
                key=f"budget-alert:{alert.pk}",
            )
            for person in _whom(alert.budget)
        ],
        now=now,
    )
    return True


def _whom(budget: Budget) -> Iterable[User]:
    """Leads and finance people of the team, and who keeps the books; active ones alone."""
    account = budget.account
    team = account.project.team if account.project is not None else account.team
    people = set(people_who_can("keep_books", None))
    if team is not None:
        roles = (Role.LEAD, Role.FINANCE)
        people |= set(
            User.objects.filter(is_active=True, memberships__team=team, memberships__role__in=roles)
        )
    return people


def _words(alert: BudgetAlert) -> tuple[str, str, str]:
    budget, account = alert.budget, alert.budget.account
    whose, page = "the organisation", "/finance/budgets/"
    if account.project is not None:
        whose, page = account.project.path, f"/teams/{account.project.team.slug}/quota/"
    elif account.team is not None:
        whose, page = account.team.slug, f"/teams/{account.team.slug}/quota/"
    reached = alert.get_threshold_display()
    # One leap passes several of them; what is said is how far it went.
    if alert.threshold != Threshold.FORECAST and alert.used > budget.limit > 0:
        reached = printed_of(budget, Standing(alert.used, 0)).share_words(alert.used)
    used, limit = figure_of(budget, alert.used), figure_of(budget, budget.limit)
    text = (
        f"{used} of {limit} used. The budget holds "
        f"{until_words(budget.valid_until, alert.at)}. {budget.get_enforcement_display()}."
    )
    return f"Budget of {whose}: {reached}", text, page
