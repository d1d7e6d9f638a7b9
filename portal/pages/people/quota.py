"""The quota of a team: what it holds, borrows and lends; its caps, budgets and grants; edits."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.errors import Forbidden
from accounts.models import Team
from accounts.permissions import can
from portal.forms.money.finance import BudgetForm
from portal.forms.quotas import QuotaForm
from portal.pages.access import choice, page, viewer_of
from portal.pages.finance.acting import decide_by_form
from portal.pages.finance.budgets import (
    budget_form,
    budget_leaf,
    budget_named,
    filled_from,
    set_from,
)
from portal.pages.listing.leaves import leaf_of
from portal.templatetags.measures import device_short_name
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.sharing import get_visible_owner, owner_path
from scheduler.selectors.sharing.budgets import budgets_for
from scheduler.selectors.sharing.overview import QuotaRow, TeamQuota, team_quota
from scheduler.services.sharing.limits import set_quota

# Of two tables and two forms a page with a hundred rows each takes twice the time.
_ROWS = 50
_FIGURES = ("guaranteed", "borrow_limit", "lend_limit", "maximum", "max_hours")


@page("GET", "POST")
def team_quota_page(request: HttpRequest, slug: str) -> HttpResponseBase:
    """`?edit=<id>` fills the form with a quota; POST sets one."""
    viewer = viewer_of(request)
    found = team_quota(viewer, slug, now=timezone.now())

    def show(request: HttpRequest, **more: Any) -> HttpResponse:
        # After a refusal as it is then.
        return _show(request, team_quota(viewer, slug, now=timezone.now()), **more)

    if request.method != "POST":
        return _show(request, found)
    _require_rights(found)

    def act(cleaned: dict[str, Any]) -> str:
        quota = set_quota(
            actor=viewer,
            owner=get_visible_owner(viewer, cleaned["owner"]),
            pool=get_visible_pool(viewer, cleaned["pool"]) if cleaned["pool"] else None,
            gpu_model=cleaned["gpu_model"],
            seen=cleaned["seen"],
            **{name: cleaned[name] for name in _FIGURES},
        )
        most = quota.maximum
        if most is not None and quota.held > most:
            return f"The quota is set. {quota.held} are held now; the {most} count for new starts."
        return "The quota is set."

    form = _quota_form(found, request.POST)
    return decide_by_form(request, form, act, show, "teams:quota", slug)


@page("POST")
def team_budget(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Set a budget of the team or of one of its projects."""
    viewer = viewer_of(request)
    found = team_quota(viewer, slug, now=timezone.now())

    def show(request: HttpRequest, *, form: BudgetForm, **more: Any) -> HttpResponse:
        return _show(request, found, budgets_form=form, **more)

    _require_rights(found)
    form = budget_form(list(found.owners), request.POST)
    return decide_by_form(
        request, form, lambda cleaned: set_from(viewer, cleaned), show, "teams:quota", slug
    )


def _require_rights(found: TeamQuota) -> None:
    if not found.owners:
        raise Forbidden("Only leads, operators and those who keep the books set limits.")


def _quota_form(found: TeamQuota, data: Any = None, **initial: Any) -> QuotaForm:
    return QuotaForm(
        data,
        initial=initial or None,
        owners=found.owners,
        pools=found.pools,
        models=[(model, device_short_name(model)) for model in found.models],
    )


def _path(team: Team, row: QuotaRow) -> str:
    return f"{team.slug}/{row.owner}" if row.is_project else row.owner


def _filled(team: Team, row: QuotaRow) -> dict[str, Any]:
    quota, owner = row.quota, _path(team, row)
    figures = {name: getattr(quota, name) for name in _FIGURES}
    return {
        **figures, "owner": owner, "pool": row.pool, "gpu_model": quota.gpu_model, "seen": row.seen,
    }  # fmt: skip


def _show(
    request: HttpRequest,
    found: TeamQuota,
    *,
    status: int = 200,
    form: QuotaForm | None = None,
    budgets_form: BudgetForm | None = None,
) -> HttpResponse:
    viewer, now = viewer_of(request), timezone.now()
    budgets = budgets_for(viewer, team=found.team)
    # What the form cannot name would be set for whoever stands first in it.
    settable = {path for path, _ in found.owners}
    rows = {str(row.quota.pk): row for row in found.rows if _path(found.team, row) in settable}
    row = rows.get(choice(request, "edit", rows))
    budget = budget_named(request, "budget", budgets)
    if budget is not None and owner_path(budget) not in settable:
        budget = None
    context = {
        "team": found.team,
        "rows": leaf_of(request, found.rows, "quotas", size=_ROWS).made(
            lambda row: (row, str(row.quota.pk) in rows)
        ),
        "settable": settable,
        "caps": found.caps,
        "views": budget_leaf(request, budgets, "budgets", now=now, size=_ROWS),
        "may_edit": bool(found.owners),
        "may_see_costs": can(viewer, "view_costs", found.team),
        "form": form or _quota_form(found, **(_filled(found.team, row) if row else {})),
        "budget_form": budgets_form
        or budget_form(list(found.owners), **(filled_from(budget) if budget else {})),
        "edited": row,
        "changed": budget,
        "now": now,
    }
    return render(request, "quotas/team.html", context, status=status)
