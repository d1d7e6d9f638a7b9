"""The simulator: the last hours of a pool under other rules, and what would have changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import DomainError, Forbidden
from accounts.permissions import is_operator
from portal.forms.cluster.simulating import ScenarioForm
from portal.pages.access import choice, page, said_and_back, viewer_of
from portal.pages.cluster.pools import policy_changes
from portal.pages.listing.leaves import leaf_of
from portal.templatetags.measures import duration, money
from scheduler.engine.policy import ORDER_WORDS, Order
from scheduler.selectors.cluster import visible_pools
from scheduler.selectors.machines.scenarios import get_visible_scenario, visible_scenarios
from scheduler.services.sharing.policies import compare_policies, policy_in_force
from scheduler.services.simulating.scenarios import (
    apply_scenario,
    ask_scenario,
    forget_scenario,
    policy_wanted,
)
from scheduler.states import hours_words

# name of the measure: words, whether more of it is better (None: neither).
_ROWS: dict[str, tuple[str, bool | None]] = {
    "wait_p50_s": ("Half wait at most", False),
    "wait_p90_s": ("Nine of ten wait at most", False),
    "utilisation": ("GPUs in use (from the first submit to the last end)", True),
    "preemptions": ("Stops for others", False),
    "failures": ("Stops by lost nodes", None),
    "jain": ("Fairness (1: all teams get alike)", True),
    "gpu_hours": ("GPU-hours held", None),
    "lost_gpu_hours": ("GPU-hours of lost work", False),
    "cost": ("Cost", None),
}
# Of each pool, where there are several.
_OF_POOL = ("wait_p50_s", "wait_p90_s", "utilisation", "preemptions")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure in both settings, in words; `tone` says whether the change is for the better."""

    name: str
    words: str
    before: str
    after: str
    change: str
    tone: str


@page("GET", "POST")
def scenario_list(request: HttpRequest) -> HttpResponseBase:
    """What was asked so far, and a new question."""
    viewer = viewer_of(request)
    if not is_operator(viewer):
        raise Forbidden("Only operators replay what others ran. Ask one of them.")
    pools = {pool.name: pool for pool in visible_pools(viewer)}
    sent = request.POST if request.method == "POST" else None
    form = ScenarioForm(sent, pools=pools, initial=_initial(request, pools))
    if sent is not None and form.is_valid():
        said = form.cleaned_data
        try:
            scenario = ask_scenario(
                actor=viewer,
                pool=pools.get(said["pool"]),
                hours=said["hours"],
                changes=form.changes(),
                name=said["name"],
            )
        except Forbidden:
            raise
        except DomainError as refused:
            field = "more" if refused.field == "changes" else refused.field
            form.add_error(field if field in form.fields else None, refused.detail)
        else:
            return redirect("simulator:detail", scenario.pk)
    policy = policy_in_force()
    context = {
        "form": form,
        "rows": leaf_of(request, visible_scenarios(viewer).defer("answer"), "page", size=50),
        "policy": policy,
        "now": timezone.now(),
    }
    return render(request, "cluster/simulator.html", context, status=422 if form.errors else 200)


def _initial(request: HttpRequest, pools: Collection[str]) -> dict[str, str]:
    """What a link has filled in already: `?pool=&order=`."""
    orders = [word for word, _ in cast(Any, ScenarioForm.base_fields["order"]).choices]
    asked = {"pool": choice(request, "pool", pools), "order": choice(request, "order", orders)}
    return {name: text for name, text in asked.items() if text}


@page("GET")
def scenario_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The answer as soon as it is there, and the button that puts the policy in force."""
    viewer = viewer_of(request)
    scenario = get_visible_scenario(viewer, pk)
    answer: dict[str, Any] = scenario.answer
    wanted = policy_wanted(scenario) if scenario.progress == "done" else {}
    changes = []
    if wanted and scenario.pool:
        changes = policy_changes(*compare_policies(scenario.pool, wanted))
    context = {
        "scenario": scenario,
        "answer": answer,
        "since": scenario.created_at - timedelta(hours=scenario.hours),
        "figures": list(_figures(answer)) if scenario.progress == "done" else [],
        "pools": [_pool(one, answer) for one in answer.get("pools", ())],
        "teams": [_team(one) for one in answer.get("teams", ())],
        "wanted": changes,
        "is_open": scenario.progress in ("waiting", "running"),
        "now": timezone.now(),
    }
    part = "#live" if request.GET.get("part") == "live" else ""
    return render(request, f"cluster/scenario.html{part}", context)


@page("POST")
def scenario_apply(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Put the scenario's policy in force for its pool."""
    viewer = viewer_of(request)
    scenario = get_visible_scenario(viewer, pk)

    def act() -> str:
        rule = apply_scenario(actor=viewer, scenario=scenario)
        if rule is None:
            return f"Pool {scenario.pool} is scheduled as the cluster is, and follows it again."
        how = f"Pool {rule.pool.name} is scheduled {ORDER_WORDS[Order(rule.name)]}"
        return f"{how} from the next cycle on; the audit has what was before."

    return said_and_back(request, act, "simulator:detail", pk)


@page("POST")
def scenario_forget(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Delete one."""
    viewer = viewer_of(request)
    scenario = get_visible_scenario(viewer, pk)
    forget_scenario(actor=viewer, scenario=scenario)
    messages.success(request, f"{scenario} is forgotten.")
    return redirect("simulator:list")


def _pool(one: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """A pool's own figures, those shown by name."""
    figures = {**one, "currency": answer["currency"]}
    rows = {row.name: row for row in _figures(figures)}
    before, after = one["nodes"]
    return {
        "name": one["name"],
        "jobs": one["measures"][0]["jobs"],
        "nodes": f"{before} → {after}" if before != after else str(before),
        # What the measures say in brackets they say once, in the table of all.
        "figures": [replace(rows[name], words=_ROWS[name][0].split(" (")[0]) for name in _OF_POOL],
    }


def _figures(answer: dict[str, Any]) -> Iterator[Figure]:
    before, after = answer["measures"]
    is_same_size = answer["nodes"][0] == answer["nodes"][1]
    for name, (words, is_good) in _ROWS.items():
        if before.get(name) is None or after.get(name) is None:
            continue
        change = after[name] - before[name]
        shown = [_shown(name, one[name], answer["currency"]) for one in (before, after)]
        said = _shown(name, abs(change), answer["currency"])
        is_news = shown[0] != shown[1]
        sign = "+" if change > 0 else "−"
        tone = ""
        # Of more nodes a smaller share is in use, which is neither better nor worse.
        is_fair = name != "utilisation" or is_same_size
        if is_news and is_good is not None and is_fair:
            tone = "good" if (change > 0) == is_good else "warntxt"
        told = f"{sign}{said}" if is_news else "the same"
        yield Figure(name, words, shown[0], shown[1], told, tone)


def _shown(name: str, value: float, currency: str) -> str:
    if name.endswith("_s"):
        return duration(value)
    if name == "utilisation":
        return f"{100 * value:.1f} %"
    if name == "jain":
        return f"{value:.3f}"
    if name == "cost":
        return money(value, currency)
    return hours_words(3600 * value) if name.endswith("gpu_hours") else f"{value:,.0f}"


def _team(team: dict[str, Any]) -> dict[str, Any]:
    """A team's waits in words; better or worse only where it is news."""
    before, after = team["p90_s"]
    tone = "" if not team["is_news"] else "good" if after < before else "warntxt"
    waits = {name: [duration(one) for one in team[name]] for name in ("p50_s", "p90_s")}
    return {**team, **waits, "tone": tone}
