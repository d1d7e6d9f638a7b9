"""What pools cost: purchases that are written off, other costs, and how much of it comes back."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import User
from accounts.permissions import can
from portal.forms.money.costs import AssetForm, CostForm, RetireForm
from portal.pages.access import choice, page, viewer_of
from portal.pages.finance.acting import decide, decide_by_form
from portal.pages.listing.leaves import leaf_of
from scheduler.conf import load_conf
from scheduler.models import Asset
from scheduler.selectors.books import spending as select
from scheduler.selectors.books.desk import require_reader
from scheduler.selectors.cluster import get_visible_pool, visible_pools
from scheduler.services import books

_DONE: dict[str, tuple[Callable[..., object], str]] = {
    "approve": (books.approve_spending, "It is approved."),
    "decline": (books.decline_spending, "It is declined."),
}
_ENDED: dict[str, tuple[Callable[..., object], str]] = {
    "agree": (books.approve_retirement, "It leaves on the day proposed; the rest is given up."),
    "keep": (books.decline_retirement, "It stays in service."),
}


@page("GET", "POST")
def asset_list(request: HttpRequest) -> HttpResponseBase:
    """Purchases, the newest first; POST proposes one."""
    viewer = viewer_of(request)
    require_reader(viewer)
    if request.method != "POST":
        return _show_assets(request)

    def act(cleaned: dict[str, Any]) -> str:
        cleaned["pool"] = get_visible_pool(viewer, cleaned["pool"])
        cleaned["residual"] = cleaned["residual"] or Decimal(0)
        asset = books.propose_asset(actor=viewer, **cleaned)
        return _proposed(asset.decided_at is not None)

    form = AssetForm(request.POST, pools=_pools(viewer))
    return decide_by_form(request, form, act, _show_assets, "finance:assets")


@page("POST", back="finance:assets")
def asset_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Approve or decline a purchase; agree to its early end, or keep it."""
    viewer = viewer_of(request)
    asset = select.get_visible_asset(viewer, pk)

    def done() -> str:
        if act in _ENDED:
            _ENDED[act][0](actor=viewer, asset=asset)
            return _ENDED[act][1]
        _DONE[act][0](actor=viewer, row=asset)
        return _DONE[act][1]

    if act not in (*_DONE, *_ENDED):
        raise Http404
    return decide(request, done, _show_assets, "finance:assets")


@page("GET", "POST")
def asset_retire(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Ask for day and reason; POST proposes that the asset leaves early."""
    viewer = viewer_of(request)
    asset = select.get_visible_asset(viewer, pk)

    def show(request: HttpRequest, *, status: int = 200, form: Any = None) -> HttpResponse:
        return _show_retire(request, asset, form or RetireForm(), status)

    def act(cleaned: dict[str, Any]) -> str:
        row = books.retire_asset(actor=viewer, asset=asset, **cleaned)
        return _ENDED["agree"][1] if row.retired_on else _proposed(is_alone=False)

    if request.method != "POST":
        return show(request)
    return decide_by_form(request, RetireForm(request.POST), act, show, "finance:assets")


@page("GET", "POST")
def cost_list(request: HttpRequest) -> HttpResponseBase:
    """Other costs, and what of all costs came back in a closed month; POST proposes a cost."""
    viewer = viewer_of(request)
    require_reader(viewer)
    if request.method != "POST":
        return _show_costs(request)

    def act(cleaned: dict[str, Any]) -> str:
        cleaned["pool"] = get_visible_pool(viewer, cleaned["pool"])
        cost = books.propose_cost(actor=viewer, **cleaned)
        return _proposed(cost.decided_at is not None)

    form = CostForm(request.POST, pools=_pools(viewer))
    return decide_by_form(request, form, act, _show_costs, "finance:costs")


@page("POST", back="finance:costs")
def cost_act(request: HttpRequest, pk: int, act: str) -> HttpResponseBase:
    """Approve and book a cost, or decline it."""
    viewer = viewer_of(request)
    if act not in _DONE:
        raise Http404
    cost = select.get_visible_cost(viewer, pk)

    def done() -> str:
        _DONE[act][0](actor=viewer, row=cost)
        return _DONE[act][1]

    return decide(request, done, _show_costs, "finance:costs")


def _proposed(is_alone: bool) -> str:
    if is_alone:
        return "It holds at once: nobody else keeps the books."
    return "It is proposed; another person has to approve it."


def _pools(viewer: User) -> list[str]:
    return [pool.name for pool in visible_pools(viewer)]


def _shown(request: HttpRequest, **more: Any) -> dict[str, Any]:
    viewer = viewer_of(request)
    return {
        "may_act": can(viewer, "keep_books", None),
        "me": viewer.pk,
        "currency": load_conf().currency,
        "now": timezone.now(),
        **more,
    }


def _show_assets(
    request: HttpRequest, *, status: int = 200, form: AssetForm | None = None
) -> HttpResponse:
    viewer = viewer_of(request)
    context = _shown(
        request,
        rows=leaf_of(request, select.assets_so_far(viewer), "page"),
        form=form or AssetForm(pools=_pools(viewer)),
    )
    return render(request, "finance/assets.html", context, status=status)


def _show_retire(request: HttpRequest, asset: Asset, form: RetireForm, status: int) -> HttpResponse:
    ways = select.ways_to_leave(asset, today=timezone.now().date())
    context = _shown(request, asset=asset, form=form, ways=ways)
    return render(request, "finance/asset_retire.html", context, status=status)


def _show_costs(
    request: HttpRequest, *, status: int = 200, form: CostForm | None = None
) -> HttpResponse:
    viewer = viewer_of(request)
    month, months, recovered = select.recovered_month(viewer, request.GET.get("month", ""))
    choice(request, "month", months)
    context = _shown(
        request,
        rows=leaf_of(request, select.costs_so_far(viewer), "page"),
        month=month,
        months=months,
        recovery=recovered,
        together=select.all_together(recovered),
        uncosted=[row.pool for row in recovered if not row.cost],
        form=form or CostForm(pools=_pools(viewer)),
    )
    return render(request, "finance/costs.html", context, status=status)
