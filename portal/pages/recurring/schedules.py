"""Schedules of jobs: the list, one with its next times and what came of the last, its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone

from accounts.errors import DomainError, Forbidden, Invalid, NotFound, StaleVersion
from accounts.models import User
from portal import limits
from portal.forms.composing.schedules import ScheduleForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.composing.offers import offer_for
from portal.pages.listing.leaves import leaf_of
from portal.reports.diffs import told_changes
from portal.reports.spec_text import template_text
from portal.serving.zones import zone_of
from scheduler.conf import load_conf
from scheduler.models import JobSchedule, TemplateVersion
from scheduler.selectors.composing.templates import get_version
from scheduler.selectors.recurring.acts import act_words, acts_on, told_of
from scheduler.selectors.recurring.schedules import (
    ahead_of,
    costs_of_runs,
    ended_lately,
    get_visible_schedule,
    runs_of,
    shown_document,
    visible_schedules,
)
from scheduler.services.recurring.keeping import (
    change_schedule,
    create_schedule,
    delete_schedule,
    may_rule,
    may_submit,
    owner_left,
    pause_schedule,
    resume_schedule,
)
from scheduler.services.recurring.running import run_now
from scheduler.services.recurring.taking import may_take_over, take_over
from scheduler.services.recurring.terms import Terms, terms_of
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem, parse_spec
from scheduler.spec.partial import read_partial

_USUAL = Terms(name="", rule="")


@page("GET")
def schedule_list(request: HttpRequest) -> HttpResponseBase:
    """Those that the viewer may see; `?mine=1` only the viewer's own."""
    viewer, asked = viewer_of(request), request.GET.get("mine", "")
    mine = asked == "1"
    problems = [] if mine or not asked else ["mine: write 1 for your own, or leave it out."]
    rows = leaf_of(request, visible_schedules(viewer, mine=mine), "page")
    context = {"rows": rows, "mine": mine, "now": timezone.now(), "problems": problems}
    return render(request, "schedules/list.html", context)


@page("GET")
def schedule_detail(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Its next times and about what they cost, what came of the last, and the job."""
    viewer, now = viewer_of(request), timezone.now()
    schedule = get_visible_schedule(viewer, pk)
    runs = leaf_of(request, runs_of(viewer, schedule), "runs", size=20)
    shown, lately = list(runs), ended_lately(viewer, schedule)
    costs = costs_of_runs(viewer, [*shown, *lately], now=now)
    document = shown_document(viewer, schedule)
    context = {
        "schedule": schedule,
        "runs": runs,
        "rows": [(run, costs.get(run.pk)) for run in shown],
        "ahead": ahead_of(schedule, lately, costs, now=now),
        "spec_text": template_text(document) if document is not None else "",
        "may_submit": may_submit(viewer, schedule),
        "may_rule": may_rule(viewer, schedule),
        "is_own": schedule.owner_id == viewer.pk,
        "owner_left": owner_left(schedule),
        "may_take_over": may_take_over(viewer, schedule),
        "acts": (acts := leaf_of(request, acts_on(viewer, schedule), "acts", size=10)),
        "act_lines": [
            (one, act_words(one), told_changes(one.action, *told_of(viewer, schedule, one)))
            for one in acts
        ],
        "currency": load_conf().currency,
        "now": now,
    }
    return render(request, "schedules/detail.html", context)


@page("GET", "POST")
def schedule_new(request: HttpRequest) -> HttpResponseBase:
    """The form for a new one; what the composer sends is its first text."""
    viewer = viewer_of(request)
    if request.method == "POST" and "rule" in request.POST:
        form = ScheduleForm(request.POST)
        if form.is_valid() and (made := _made(viewer, form)):
            messages.success(request, f"{made.name} is kept.")
            return redirect("schedules:detail", made.pk)
    else:
        usual = {name: getattr(_USUAL, name) for name in Terms.__dataclass_fields__}
        usual["zone"] = str(zone_of(request.COOKIES))
        form = ScheduleForm(initial=usual | _of_composer(request, viewer))
    return render(request, "schedules/form.html", {"form": form})


@page("GET", "POST")
def schedule_change(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The form with what it says; what is kept holds from the next due time on. `version`: the one
    that the form was opened with, so that nothing is set back that has changed since."""
    viewer = viewer_of(request)
    schedule = get_visible_schedule(viewer, pk)
    if not may_submit(viewer, schedule):
        raise Forbidden("Only the schedule's owner, in whose name it submits, may change it.")
    terms = terms_of(schedule)
    initial = {name: getattr(terms, name) for name in Terms.__dataclass_fields__}
    initial["spec"] = template_text(shown_document(viewer, schedule) or {})
    form = ScheduleForm(request.POST if request.method == "POST" else None, initial=initial)
    opened = request.POST.get("version", "")[:9]
    version = int(opened) if opened.isascii() and opened.isdecimal() else None
    if form.is_bound and form.is_valid() and _changed(viewer, schedule, form, version):
        messages.success(request, "It holds from the next due time on.")
        return redirect("schedules:detail", pk)
    return render(request, "schedules/form.html", {"form": form, "schedule": schedule})


@page("POST")
def schedule_pause(request: HttpRequest, pk: int) -> HttpResponseBase:
    """No more jobs until it is resumed."""

    def act(viewer: User, schedule: JobSchedule, reason: str) -> str:
        pause_schedule(actor=viewer, schedule=schedule, reason=reason)
        return f"{schedule.name} is paused; jobs that are there go on."

    return _act(request, pk, act)


@page("POST")
def schedule_resume(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Go on with the next due time."""

    def act(viewer: User, schedule: JobSchedule, _: str) -> str:
        resume_schedule(actor=viewer, schedule=schedule)
        return f"{schedule.name} goes on with its next time."

    return _act(request, pk, act)


@page("POST")
def schedule_take_over(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Become its owner, where that one has left."""

    def act(viewer: User, schedule: JobSchedule, reason: str) -> str:
        found = take_over(actor=viewer, schedule=schedule, reason=reason)
        return f"{found.name} is yours, and paused: look at its job, then resume it."

    try:
        return _act(request, pk, act)
    except SpecInvalid as refused:
        messages.error(request, f"You could not submit its job: {_problems(refused)}.")
    return redirect("schedules:detail", pk)


@page("POST")
def schedule_run(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Its job once, now."""
    viewer = viewer_of(request)
    schedule = get_visible_schedule(viewer, pk)

    def act() -> str:
        return f"Job {run_now(actor=viewer, schedule=schedule).job_id} is submitted."

    if wait_s := limits.wait_s(limits.SUBMIT, viewer.pk):
        messages.error(request, f"You submit too fast. Try again in {wait_s} s.")
        return redirect("schedules:detail", pk)
    try:
        return said_and_back(request, act, "schedules:detail", pk)
    except SpecInvalid as refused:
        messages.error(request, f"Its job is refused: {_problems(refused)}.")
    return redirect("schedules:detail", pk)


@page("POST")
def schedule_delete(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Forget it; its jobs stay."""
    viewer = viewer_of(request)
    schedule = get_visible_schedule(viewer, pk)
    try:
        reason = request.POST.get("reason", "")
        delete_schedule(actor=viewer, schedule=schedule, reason=reason)
    except Invalid as refused:
        messages.error(request, refused.detail)
        return redirect("schedules:detail", pk)
    messages.success(request, f"{schedule.name} is deleted; its jobs stay.")
    return redirect("schedules:list")


def _problems(refused: SpecInvalid) -> str:
    return "; ".join(f"{one.field}: {one.message}" for one in refused.problems)


def _act(
    request: HttpRequest, pk: int, act: Callable[[User, JobSchedule, str], str]
) -> HttpResponseBase:
    viewer = viewer_of(request)
    schedule, reason = get_visible_schedule(viewer, pk), request.POST.get("reason", "")
    return said_and_back(request, lambda: act(viewer, schedule, reason), "schedules:detail", pk)


def _made(viewer: User, form: ScheduleForm) -> JobSchedule | None:
    if wait_s := limits.wait_s(limits.SUBMIT, viewer.pk):
        form.add_error(None, f"You submit too fast. Try again in {wait_s} s.")
        return None
    try:
        version = _version(viewer, form.cleaned_data["template"])
        spec = parse_spec({**(version.document if version else {}), **form.sent})
        terms = Terms(**form.terms)
        return create_schedule(actor=viewer, spec=spec, terms=terms, template=version)
    except SpecInvalid as refused:
        form.add_problems(refused)
    except DomainError as refused:
        _mark(form, refused)
    return None


def _changed(viewer: User, schedule: JobSchedule, form: ScheduleForm, version: int | None) -> bool:
    try:
        spec: JobSpec = parse_spec(form.sent)
        change_schedule(
            actor=viewer, schedule=schedule, changes=form.terms, spec=spec, version=version
        )
    except SpecInvalid as refused:
        form.add_problems(refused)
    except StaleVersion:
        _mark_changed_since(form, schedule, spec)
    except DomainError as refused:
        _mark(form, refused)
    else:
        return True
    return False


def _mark_changed_since(form: ScheduleForm, schedule: JobSchedule, spec: JobSpec) -> None:
    """Each field that says something else by now says so; who keeps it once more has their own."""
    form.add_error(
        None,
        "The schedule was changed since you opened this page. Look at what it says now, and keep "
        "it once more to have it as it stands here.",
    )
    now = terms_of(schedule)
    for name, value in form.terms.items():
        if value != getattr(now, name):
            form.add_error(name, f"By now it says: {getattr(now, name) or 'nothing'}.")
    if spec.document() != schedule.document:
        form.add_error("spec", "By now the job is another one: its page has it.")


def _mark(form: ScheduleForm, refused: DomainError) -> None:
    field = refused.field if refused.field in form.fields else None
    form.add_error(field, refused.detail.removeprefix(f"{refused.field}: "))


def _version(viewer: User, reference: str) -> TemplateVersion | None:
    try:
        return get_version(viewer, reference) if reference else None
    except NotFound:
        words = "is no template for you; start from another one, or from an empty form"
        raise SpecInvalid([SpecProblem("template", words)]) from None


def _of_composer(request: HttpRequest, viewer: User) -> dict[str, Any]:
    """The fields of the composer's form as the text of a job; what is wrong is left out."""
    if request.method != "POST":
        return {}
    form = offer_for(viewer).form(request.POST)
    form.is_valid()
    document = read_partial(form.document(form.cleaned_data)).document
    text = template_text(document)
    reference = str(request.POST.get("template", ""))[:110]
    return {"name": document.get("name", ""), "spec": text, "template": reference}


schedule_urls = [
    path("", schedule_list, name="list"),
    path("new/", schedule_new, name="new"),
    path("<int:pk>/", schedule_detail, name="detail"),
    path("<int:pk>/change/", schedule_change, name="change"),
    path("<int:pk>/pause/", schedule_pause, name="pause"),
    path("<int:pk>/resume/", schedule_resume, name="resume"),
    path("<int:pk>/take-over/", schedule_take_over, name="take_over"),
    path("<int:pk>/run/", schedule_run, name="run"),
    path("<int:pk>/delete/", schedule_delete, name="delete"),
]
