"""Mails about alerts of budgets: to those who lead what it is for and to those who keep the books.

An alert is told once: its row is claimed before the mail goes out. A mail that cannot be sent is
not sent again; the alert stands on the pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.conf import settings
from django.core.mail import send_mail

from accounts.models import Role, User
from accounts.permissions import people_who_can
from scheduler.models import Budget, BudgetAlert
from scheduler.money import from_steps

_AT_ONCE = 50


def tell_alerts(*, now: datetime) -> int:
    """Mail what nobody was told yet; one query if there is nothing. Returns how many alerts."""
    waiting = BudgetAlert.objects.filter(told_at__isnull=True).select_related(
        "budget__account__team", "budget__account__project__team"
    )
    told = 0
    for alert in waiting.order_by("pk")[:_AT_ONCE]:
        once = BudgetAlert.objects.filter(pk=alert.pk, told_at__isnull=True)
        if not once.update(told_at=now):
            continue
        told += 1
        addresses = sorted({user.email for user in _whom(alert.budget) if user.email})
        if addresses:
            subject, body = _words(alert)
            send_mail(subject, body, None, addresses, fail_silently=True)
    return told


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


def _words(alert: BudgetAlert) -> tuple[str, str]:
    budget, account = alert.budget, alert.budget.account
    whose, page = "the organisation", "/finance/budgets/"
    if account.project is not None:
        whose, page = account.project.path, f"/teams/{account.project.team.slug}/quota/"
    elif account.team is not None:
        whose, page = account.team.slug, f"/teams/{account.team.slug}/quota/"
    reached = alert.get_threshold_display()
    used, limit = _figure(budget, alert.used), _figure(budget, budget.limit)
    body = (
        f"The budget of {whose} until {budget.valid_until:%Y-%m-%d} has reached: {reached}.\n"
        f"{used} of {limit} are used. What it does: {budget.get_enforcement_display()}.\n\n"
        f"{settings.PUBLIC_URL}{page}\n"
    )
    return f"Trainyard: budget of {whose}: {reached}", body


def _figure(budget: Budget, figure: int) -> str:
    if budget.is_money:
        return f"{from_steps(figure):.2f} {budget.currency}"
    return f"{figure / 3600:.1f} GPU-hours"
