"""What teams and projects may hold, and what their budgets have left."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson
from scheduler.states import hours_words

_QUOTA = (
    "WHOSE",
    "OF",
    "POOL",
    "HELD",
    "GUARANTEED",
    "BORROWED",
    "BORROWS",
    "LENDS",
    "AT MOST",
    "LONGEST JOB",
)
_BUDGET = ("WHOSE", "UNTIL", "BUDGET", "COMMITTED", "SPENT", "USED", "OUT ON", "DOES")


def quota(
    owner: Annotated[str, typer.Argument(help="Only this team, or team/project.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show what you may hold, what of it is borrowed, and what budgets have left."""
    with Api(load_config()) as api:
        quotas = api.everything("/rules/quotas/")
        budgets = api.everything("/rules/budgets/")
    if owner:
        quotas = [one for one in quotas if _is_of(one["owner"], owner)]
        budgets = [one for one in budgets if _is_of(one["owner"], owner)]
    if as_json:
        print_json({"quotas": quotas, "budgets": budgets})
        return
    print_table(_QUOTA, [_quota_cells(one) for one in quotas], "No quota: what is free is yours.")
    print_line()
    print_table(_BUDGET, [_budget_cells(one) for one in budgets], "No budget.")


def _is_of(path: str, owner: str) -> bool:
    return path == owner or path.startswith(f"{owner}/")


def _quota_cells(one: dict[str, Any]) -> list[object]:
    granted = [grant for grant in one["grants"] if not grant["revoked_at"]]
    plus = f" (+{len(granted)} grants)" if granted else ""
    return [
        one["owner"] or "the organisation",
        one["gpu_model"] or "any GPU",
        one["pool"] or "all",
        one["held"],
        f"{one['guaranteed']}{plus}",
        one["borrowed"],
        "no limit" if one["borrow_limit"] is None else one["borrow_limit"],
        "all" if one["lend_limit"] is None else one["lend_limit"],
        "no limit" if one["maximum"] is None else one["maximum"],
        "no limit" if one["max_hours"] is None else f"{one['max_hours']} h",
    ]


def _budget_cells(one: dict[str, Any]) -> list[object]:
    if one["amount"] is None:
        names = ("gpu_seconds", "committed_s", "waiting_s", "spent_s", "over_s")
        limit, committed, waiting, spent, over = (f"{hours_words(one[name])} h" for name in names)
    else:
        names = ("amount", "committed", "waiting", "spent", "over")
        limit, committed, waiting, spent, over = (
            f"{Decimal(one[name]):,.2f} {one['currency']}" for name in names
        )
    is_over = bool(Decimal(one[names[-1]]))
    used = one["used_s"] if one["amount"] is None else Decimal(one["used"])
    share = f"{one['used_percent']} %" if one["used_percent"] or not used else "under 1 %"
    if one["commits_at"] == "submit":
        committed += f" ({waiting} waits)"
    return [
        one["owner"] or "the organisation",
        one["valid_until"][:10],
        limit,
        committed,
        spent,
        f"{share}, {over} over" if is_over else share,
        one["out_on"] or "-",
        one["enforcement"].replace("_", " "),
    ]
