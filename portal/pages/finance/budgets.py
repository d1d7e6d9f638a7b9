"""Budgets of everybody: how far each is used, where it leads, and the form that sets one."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from accounts.selectors import visible_teams
from portal.forms.money.finance import BudgetForm
from portal.pages.access import choice, page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.pages.listing.leaves import ROWS, Leaf, leaf_of
from scheduler.conf import load_conf
from scheduler.ledger.currencies import exponent_of
from scheduler.models import Budget
from scheduler.money import from_steps
from scheduler.selectors.books.desk import require_reader
from scheduler.selectors.sharing import get_visible_budget, get_visible_owner, owner_path
from scheduler.selectors.sharing.budgets import budgets_for, views_of
from scheduler.services.sharing.budgets import BudgetRules, remove_budget, set_budget

# A choice that is made has to have a value.
_ROOT = "-"
_NUMBER = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_RULES = tuple(BudgetRules.__dataclass_fields__)


@page("GET", "POST")
def budget_list(request: HttpRequest) -> HttpResponseBase:
    """All budgets; `?edit=<id>` fills the form with one; POST sets one."""
    viewer = viewer_of(request)
    require_reader(viewer)
    if request.method != "POST":
        return _show(request)
    form = budget_form(owners_for(viewer), request.POST)
    return decide_by_form(
        request, form, lambda cleaned: set_from(viewer, cleaned), _show, "finance:budgets"
    )


@page("POST", back="finance:budgets")
def budget_remove(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Take a budget away, as it was seen."""
    viewer = viewer_of(request)
    require_reader(viewer)
    budget = get_visible_budget(viewer, pk)

    def done() -> str:
        version = request.POST.get("version", "")
        seen = int(version[:18]) if version.isascii() and version.isdigit() else 0
        remove_budget(actor=viewer, budget=budget, version=seen)
        return "The budget is removed."

    return decide(request, done, _show, "finance:budgets")


def set_from(viewer: User, cleaned: dict[str, Any]) -> str:
    """Set the budget of a cleaned form; raises what `set_budget` does."""
    asked = {name: value for name, value in cleaned.items() if name not in (*_RULES, "owner")}
    budget = set_budget(
        actor=viewer,
        owner=get_visible_owner(viewer, "" if cleaned["owner"] == _ROOT else cleaned["owner"]),
        rules=BudgetRules(**{name: cleaned[name] for name in _RULES}),
        **asked,
    )
    return f"The budget of {owner_path(budget) or 'the organisation'} is set."


def owners_for(viewer: User) -> list[tuple[str, str]]:
    """The organisation, teams and projects, by the paths of `get_visible_owner`."""
    found = visible_teams(viewer).order_by("slug", "projects__slug")
    rows = list(found.values_list("slug", "projects__slug"))
    teams = [(team, f"team {team}") for team in dict.fromkeys(team for team, _ in rows)]
    projects = [(f"{team}/{project}",) * 2 for team, project in rows if project]
    return [(_ROOT, "the organisation"), *teams, *projects]


def budget_form(owners: list[tuple[str, str]], data: Any = None, **initial: Any) -> BudgetForm:
    """The form; `initial` of a new one is the month that begins next."""
    return BudgetForm(data, owners=owners, initial=initial or None)


def filled_from(budget: Budget) -> dict[str, Any]:
    """A budget as the initial values of its form."""
    names = (*_RULES, "valid_from", "valid_until", "version")
    hours = None if budget.is_money else budget.usual // 3600
    money = None
    if budget.is_money:
        money = f"{from_steps(budget.usual):.{exponent_of(budget.currency)}f}"
    shown = {name: getattr(budget, name) for name in names}
    return {**shown, "owner": owner_path(budget) or _ROOT, "gpu_hours": hours, "amount": money}


def budget_named(request: HttpRequest, name: str, budgets: QuerySet[Any]) -> Any:
    """The one of these that a parameter asks for by its number; None for none."""
    text = request.GET.get(name, "")
    known = _NUMBER.fullmatch(text) and budgets.filter(pk=int(text)).first()
    return known if choice(request, name, (text,) if known else ()) else None


def budget_leaf(
    request: HttpRequest, budgets: QuerySet[Any], name: str, *, now: datetime, size: int = ROWS
) -> Leaf:
    """A part of these: what each comes to, and whose it is."""
    leaf = leaf_of(request, budgets, name, size=size).made_together(
        lambda rows: views_of(rows, now=now)
    )
    return leaf.made(lambda view: (view, owner_path(view.budget)))


def _show(
    request: HttpRequest, *, status: int = 200, form: BudgetForm | None = None
) -> HttpResponse:
    viewer, now = viewer_of(request), timezone.now()
    budgets = budgets_for(viewer)
    edited = budget_named(request, "edit", budgets)
    if form is None:
        form = budget_form(owners_for(viewer), **(filled_from(edited) if edited else {}))
    context = {
        "views": budget_leaf(request, budgets, "page", now=now),
        "may_act": can(viewer, "keep_books", None) or can(viewer, "operate", None),
        "form": form,
        "edited": edited,
        "currency": load_conf().currency,
        "now": now,
    }
    return render(request, "finance/budgets.html", context, status=status)
