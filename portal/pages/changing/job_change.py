"""Another time limit, tier, size or other GPUs for a job, or a pause: first what it means for
others, then the button."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, StaleVersion
from accounts.models import User
from portal.forms.filters import unknown_parameters
from portal.forms.jobs import FINISH_POLICIES, LABELS
from portal.forms.labels import in_labels
from portal.pages.access import choice, page, viewer_of
from portal.pages.changing.meantime import asked_for, refuse_changed_since, was_names
from portal.pages.job_page import job_frame
from scheduler.conf import load_conf
from scheduler.loop.changing import (
    TIERS,
    Change,
    change_job,
    preview,
    preview_pause,
    read_change,
)
from scheduler.models import Job
from scheduler.selectors.cluster import pool_summaries
from scheduler.selectors.one_job.header import job_with_header
from scheduler.services.changing.moments import Finishing, as_it_is
from scheduler.services.changing.prices import Pricing
from scheduler.services.changing.reading import NO_MOMENT
from scheduler.services.changing.requests import Asks
from scheduler.services.changing.sizes import sizes_offered
from scheduler.services.jobs import check_actor
from scheduler.spec.price import format_price
from scheduler.spec.units import format_duration
from scheduler.spec.values import format_moment
from scheduler.states import WAITING_JOB_STATES, FinishPolicy, JobState, Tier

ASKED = (
    *("time_limit", "tier", "nodes", "gpus_per_node", "gpu_model", "pool"),
    *("finish_by", "finish_by_policy", "max_cost"),
)
PARAMETERS = (*ASKED, *was_names(ASKED), "pause")
# Characters of a field.
_LONGEST = 96


@page("GET", "POST")
def job_change(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Query parameters show what a change would do, a POST of the same does it: `time_limit`,
    `tier`, `nodes`, `finish_by` and what follows then, `max_cost`, and of a job that waits
    `gpus_per_node`, `gpu_model` and `pool`; `?pause=1` shows whom a pause lets start sooner.
    `was_…` of each: what the form showed of it, so that who sends all of it asks for what they
    changed alone."""
    viewer, now = viewer_of(request), timezone.now()
    header = job_with_header(viewer, pk)
    job = header.job
    sent = request.POST if request.method == "POST" else request.GET
    asked, shown = asked_for(sent, ASKED, longest=_LONGEST)
    pause = sent.get("pause", "")
    choice(request, "pause", ("1",))
    if request.method == "POST":
        check_actor(viewer, job, None)
    context = job_frame(viewer, header) | {
        "now": now,
        "problems": [],
        "unknown": unknown_parameters(request.GET, PARAMETERS),
    }
    as_is = _as_shown(job)
    if not context["may_see_cost"]:
        del as_is["max_cost"]
    context |= _fields(viewer, job, as_is, asked)
    try:
        refuse_changed_since(asked, shown, _comparable(job, shown, as_is))
        change = _changes(_read(asked, job, now), job, prices=context["may_see_cost"])
        if request.method == "POST":
            if (asked or shown) and change == Change():
                messages.info(request, f"Job #{pk} asks for just that.")
                return redirect("jobs:detail", pk)
            change_job(actor=viewer, job=job, change=change, version=job.version, now=now)
            messages.success(request, f"Job #{pk} is changed.")
            return redirect("sessions:detail" if job.spec.get("session") else "jobs:detail", pk)
        if change != Change() and "change" in context["actions"]:
            context["impact"] = _with_spans(preview(viewer, job, change, now=now))
            context["resizes"] = change.nodes is not None
            context["extends"] = change.time_limit_s is not None
        elif pause and "pause" in context["actions"]:
            context["pausing"] = _with_spans(preview_pause(viewer, job, now=now))
        elif pause and context["actions"]:
            context["problems"] = [_not_paused(job)]
    except (Invalid, Conflict, StaleVersion) as refused:
        context |= {"problems": [in_labels(refused.detail, LABELS)], "wrong": refused.field}
    except Forbidden as refused:
        messages.error(request, refused.detail)
        return redirect("jobs:detail", pk)
    status = 422 if context["problems"] and request.method == "POST" else 200
    return render(request, "jobs/answers/change.html", context, status=status)


def _not_paused(job: Job) -> str:
    if job.state == JobState.RUNNING:
        return "Only its owner, or who leads its team, may pause it."
    return f"Only a job that runs is paused; this one is {job.state}."


def _read(asked: Mapping[str, str], job: Job, now: datetime) -> Change:
    is_emptied = "finish_by" in asked and job.finish_by is not None
    is_unpriced = "max_cost" in asked and job.max_cost is not None
    return read_change(
        asked.get("time_limit", ""),
        asked.get("tier", ""),
        asked.get("nodes", ""),
        gpus_per_node=asked.get("gpus_per_node", ""),
        gpu_model=asked.get("gpu_model"),
        pool=asked.get("pool", ""),
        finish_by=asked.get("finish_by", "") or (NO_MOMENT if is_emptied else ""),
        finish_by_policy=asked.get("finish_by_policy", ""),
        max_cost=asked.get("max_cost", "") or (NO_MOMENT if is_unpriced else ""),
        now=now,
    )


def _as_shown(job: Job) -> dict[str, str]:
    """What the form shows of the job as it is, by field."""
    return {
        "time_limit": format_duration(job.time_limit_s),
        "tier": Tier(job.tier).name.lower(),
        "nodes": _nodes_of(job) if job.state in WAITING_JOB_STATES else str(job.nodes),
        "gpus_per_node": str(job.gpus_per_node),
        "gpu_model": job.gpu_model,
        "pool": ",".join(job.pool_choice or [job.pool.name]),
        "finish_by": format_moment(job.finish_by) if job.finish_by else "",
        "finish_by_policy": job.finish_policy or FinishPolicy.KEEP,
        "max_cost": format_price(job.max_cost) if job.max_cost else "",
    }


def _comparable(job: Job, shown: Mapping[str, str], as_is: Mapping[str, str]) -> dict[str, str]:
    """Its fields without a range of nodes that it no longer has because it started: nobody changed
    that."""
    has_started = job.state not in WAITING_JOB_STATES and ".." in shown.get("nodes", "")
    return {name: text for name, text in as_is.items() if not (has_started and name == "nodes")}


def _pools(as_is: str, names: Collection[str]) -> list[str]:
    """What can be chosen: the pool or pools of a job first where it has several, else by name."""
    return [as_is, *sorted(names)] if "," in as_is else sorted({*names, as_is})


def _fields(
    viewer: User, job: Job, as_is: Mapping[str, str], asked: Mapping[str, str]
) -> dict[str, Any]:
    """The form as it was sent, else as the job is; what is offered to one that waits. `asks`: what
    is to be sent on, each with what the job has by now."""
    is_waiting = job.state in WAITING_JOB_STATES
    pools = pool_summaries(viewer) if is_waiting else []
    models = {model for summary in pools for model in summary.models} | {job.gpu_model}
    return {
        "as_is": as_is,
        "asks": [(name, text, as_is.get(name, "")) for name, text in asked.items()],
        "limit": asked.get("time_limit") or as_is["time_limit"],
        "tier": asked.get("tier") or as_is["tier"],
        "tiers": list(TIERS),
        "nodes": asked.get("nodes") or as_is["nodes"],
        "sizes": () if is_waiting else sizes_offered(job),
        "gpus": asked.get("gpus_per_node") or as_is["gpus_per_node"],
        "model": asked.get("gpu_model", as_is["gpu_model"]),
        "models": sorted(models - {""}),
        "in_order": job.gpu_models,
        "pool": asked.get("pool") or as_is["pool"],
        "finish_by": asked.get("finish_by", as_is["finish_by"]),
        "finish_policy": asked.get("finish_by_policy") or as_is["finish_by_policy"],
        "finish_policies": FINISH_POLICIES,
        "max_cost": asked.get("max_cost", as_is.get("max_cost", "")),
        "currency": load_conf().currency,
        "pools": _pools(as_is["pool"], {summary.pool.name for summary in pools}),
    }


def _nodes_of(job: Job) -> str:
    """As people write it: 4, or 2..8."""
    return f"{job.nodes_min}..{job.nodes}" if job.nodes_min < job.nodes else str(job.nodes)


def _with_spans(impact: dict[str, Any]) -> dict[str, Any]:
    """With how much later or sooner each starts, without a sign."""
    for one in (*impact["delayed"], *impact["sooner"]):
        one["by_s"] = None if one["delay_s"] is None else abs(one["delay_s"])
    return impact


def _changes(asked: Change, job: Job, *, prices: bool) -> Change:
    """Only what differs from how the job is; of its highest price as far as `prices` are seen."""
    # Of one that waits, its most alone is another wish than its range; one that runs has no range.
    asks, is_ranged = asked.asks, job.state in WAITING_JOB_STATES and job.nodes_min < job.nodes
    # Several models in an order are no model of the list: nothing was chosen then.
    is_same_model = asks.gpu_model == job.gpu_model
    return Change(
        asked.time_limit_s if asked.time_limit_s != job.time_limit_s else None,
        asked.tier if asked.tier is not None and int(asked.tier) != job.tier else None,
        asked.nodes if asked.nodes != job.nodes or is_ranged else None,
        Asks(
            asks.gpus_per_node if asks.gpus_per_node != job.gpus_per_node else None,
            None if is_same_model else asks.gpu_model,
            asks.nodes if asks.nodes != _nodes_of(job) else None,
            asks.pool if asks.pool != job.pool.name else None,
        ),
        Finishing() if asked.finishing.of(job) == as_it_is(job) else asked.finishing,
        Pricing() if prices and asked.pricing.of(job) == job.max_cost else asked.pricing,
    )
