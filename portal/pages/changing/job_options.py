"""All that stands in a waiting job's way, and the changes that the engine found to help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.pages.queue.why import next_words
from scheduler.loop.answering import answer_for
from scheduler.models import Job
from scheduler.selectors.jobs import wait_sentence_of
from scheduler.selectors.one_job.header import job_with_header
from scheduler.states import RequestKind, WaitReason

# Checks that fail while others hold GPUs; the first of them that fails names who.
OF_HOLDERS = (
    WaitReason.CAPACITY_BUSY,
    WaitReason.TOPOLOGY_FRAGMENTED,
    WaitReason.ISOLATION_CONFLICT,
    WaitReason.BEHIND_HIGHER_PRIORITY,
    WaitReason.BACKFILL_WOULD_DELAY_HEAD,
)
ASKED_FOR: Mapping[WaitReason, RequestKind] = {
    WaitReason.QUOTA_HARD: RequestKind.MAXIMUM,
    WaitReason.QUOTA_BORROW_LIMIT: RequestKind.BORROW,
    WaitReason.BUDGET_EXHAUSTED: RequestKind.MONEY,
}
# By kind of fix: what the page of changes calls it.
IN_PLACE: Mapping[str, str] = {
    "gpus": "gpus_per_node",
    "nodes": "nodes",
    "model": "gpu_model",
    "pool": "pool",
    "price": "max_cost",
}
# Named in the row of their check; the others are behind a word.
HOLDERS_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check as the table shows it: `css` and `icon` by how it stands, `ask` where more quota
    can be asked for, and who holds what it lacks."""

    check: Mapping[str, Any]
    css: str
    icon: str
    ask: str = ""
    holders: tuple[Mapping[str, Any], ...] = ()
    more_holders: tuple[Mapping[str, Any], ...] = ()
    other_holders: int = 0


@dataclass(frozen=True, slots=True)
class Fix:
    """One option: where its button leads, and whether the job itself is changed."""

    option: Mapping[str, Any]
    url: str
    is_in_place: bool


@page("GET")
def job_options(request: HttpRequest, pk: int) -> HttpResponseBase:
    """All that stands in its way and what would help; `?part=answer` is the list alone."""
    viewer, now = viewer_of(request), timezone.now()
    header = job_with_header(viewer, pk)
    job, context = header.job, job_frame(viewer, header) | {"tab": "", "now": now}
    answer = answer_for(viewer, job, now=now)
    context |= {"answer": answer}
    if answer is not None:
        rows = check_rows(answer, job, may_ask="change" in context["actions"])
        context |= {
            "rows": rows,
            "passed": sum(row.css == "ok" for row in rows),
            "is_fault": any(row.css == "fault" for row in rows),
            "fixes": fixes(answer, job, context["actions"]),
        }
    else:
        context |= {"sentence": wait_sentence_of(job), "why_next": next_words(job)}
    part = "#answer" if request.GET.get("part") == "answer" else ""
    return render(request, f"jobs/answers/options.html{part}", context)


def check_rows(answer: Mapping[str, Any], job: Job, *, may_ask: bool) -> list[CheckRow]:
    """Every check, in the order in which the engine asks them."""
    failed = {check["reason"] for check in answer["checks"] if not check["is_ok"]}
    held = next((reason for reason in OF_HOLDERS if reason in failed), WaitReason.CAPACITY_BUSY)
    rows = []
    for check in answer["checks"]:
        css, icon = ("ok", "succeeded") if check["is_ok"] else ("wait", "queued")
        if check["is_fault"]:
            css, icon = "fault", "failed"
        ask = "" if check["is_ok"] or not may_ask else _ask(check, job)
        if check["reason"] != held:
            rows.append(CheckRow(check, css, icon, ask))
            continue
        holders = tuple(answer["holders"])
        named, more = holders[:HOLDERS_AT_ONCE], holders[HOLDERS_AT_ONCE:]
        rows.append(CheckRow(check, css, icon, ask, named, more, answer["other_holders"]))
    return rows


def _ask(check: Mapping[str, Any], job: Job) -> str:
    """The form that asks for what this check lacks, of the account that lacks it."""
    kind = ASKED_FOR.get(check["reason"])
    if kind is None:
        return ""
    if kind == RequestKind.MONEY and check["have"].endswith("GPU-hours left"):
        kind = RequestKind.BUDGET
    project = job.project
    owner = project.path if check["account"] == project.path else project.team.slug
    return f"{reverse('requests:new')}?{urlencode({'kind': str(kind), 'owner': owner})}"


def fixes(answer: Mapping[str, Any], job: Job, actions: set[str]) -> list[Fix]:
    """The options, each with the page that is ready to do it: the job itself is changed where that
    is possible, else a clone with the change is on its form."""
    found = []
    for option in answer["options"]:
        asked = _in_place(option) if "change" in actions else {}
        if asked:
            url = f"{reverse('jobs:change', args=[job.pk])}?{urlencode(asked)}"
        elif "clone" in actions:
            query = {"clone": job.pk, "fix": option["fix"]}
            url = f"{reverse('jobs:submit')}?{urlencode(query, doseq=True)}"
        else:
            url = ""
        found.append(Fix(option, url, bool(asked)))
    return found


def _in_place(option: Mapping[str, Any]) -> dict[str, str]:
    """What the page of changes takes for it; empty where only another job has it."""
    if option["time_limit"]:
        return {"time_limit": option["time_limit"]}
    asked: dict[str, str] = {}
    for fix in option["fix"]:
        kind, _, value = fix.partition(":")
        if kind not in IN_PLACE:
            return {}
        asked[IN_PLACE[kind]] = value
    return asked
