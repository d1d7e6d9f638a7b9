"""Templates of jobs: the list, one with its versions, and what a lead does with it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render

from accounts.errors import DomainError, Forbidden, NotFound
from accounts.models import User
from accounts.selectors import get_visible_team
from portal.forms.composing.templates import TemplateForm, VersionForm, rule_text
from portal.forms.jobs import JobForm
from portal.pages.access import page, said_and_back, told_of, viewer_of
from portal.pages.composing.offers import offer_for
from portal.pages.listing.leaves import leaf_of
from portal.reports.spec_text import template_text
from scheduler.models import TemplateVersion
from scheduler.selectors.composing.templates import (
    get_version,
    get_visible_template,
    may_write,
    versions_of,
    visible_templates,
    writable_teams,
)
from scheduler.services.composing.templates import (
    add_version,
    create_template,
    fork_template,
    retire_template,
)
from scheduler.spec import SpecInvalid
from scheduler.spec.partial import read_partial
from scheduler.spec.rules import rule_words


@page("GET")
def template_list(request: HttpRequest) -> HttpResponseBase:
    """What the viewer can start from, by team."""
    viewer = viewer_of(request)
    rows = leaf_of(request, visible_templates(viewer), "page")
    context = {"rows": rows, "may_make": writable_teams(viewer).exists()}
    return render(request, "composing/templates.html", context)


@page("GET")
def template_detail(request: HttpRequest, slug: str) -> HttpResponseBase:
    """What its newest version says, its rules, all versions; `?version=2` shows an older one."""
    viewer = viewer_of(request)
    template = get_visible_template(viewer, slug)
    versions = list(versions_of(viewer, template))
    wanted = request.GET.get("version", "")
    shown = next((one for one in versions if str(one.number) == wanted), None)
    problems = [f"There is no version {wanted[:20]}."] if wanted and shown is None else []
    version = shown or versions[0]
    context = {
        "template": template,
        "version": version,
        "versions": leaf_of(request, versions, "page", size=30),
        "spec_text": template_text(version.document),
        "command_line": f"trainyard submit --template {version.reference}",
        "rules": rule_words(version.rules),
        "may_write": may_write(viewer, template),
        "fork_teams": writable_teams(viewer),
        "problems": problems,
    }
    return render(request, "composing/template.html", context)


@page("GET", "POST")
def template_new(request: HttpRequest) -> HttpResponseBase:
    """A form for a new one; what the composer sends is its first text."""
    viewer = viewer_of(request)
    teams = list(writable_teams(viewer))
    if not teams:
        raise Forbidden("Only who leads a team writes templates. Ask a lead.")
    if request.method == "POST" and "spec" not in request.POST:
        form = TemplateForm(initial=_of_composer(request, viewer), teams=teams)
    else:
        form = TemplateForm(request.POST if request.method == "POST" else None, teams=teams)
    if form.is_bound and form.is_valid() and (version := _made(viewer, form)):
        messages.success(request, f"{version.template.name} is kept as {version.reference}.")
        return redirect("templates:detail", version.template.slug)
    return render(request, "composing/template_form.html", {"form": form})


@page("GET", "POST")
def template_version(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The form for the next version, filled with the newest."""
    viewer = viewer_of(request)
    newest = get_version(viewer, slug)
    if not may_write(viewer, newest.template):
        raise Forbidden("Only who leads the team changes its templates. Fork it for yours.")
    initial = {"spec": template_text(newest.document), "rules": rule_text(newest.rules)}
    form = VersionForm(request.POST if request.method == "POST" else None, initial=initial)
    if form.is_bound and form.is_valid():
        try:
            version = add_version(
                actor=viewer,
                template=newest.template,
                document=form.sent["spec"],
                rules=form.sent["rules"],
                note=form.cleaned_data["note"],
            )
        except SpecInvalid as refused:
            form.add_problems(refused)
        except DomainError as refused:
            form.add_error(None, refused.detail)
        else:
            messages.success(request, f"Version {version.number} is in use from now on.")
            return redirect("templates:detail", slug)
    context = {"form": form, "template": newest.template, "number": newest.number + 1}
    return render(request, "composing/template_form.html", context)


@page("POST")
def template_retire(request: HttpRequest, slug: str) -> HttpResponseBase:
    """No more jobs from it."""
    viewer = viewer_of(request)
    template = get_visible_template(viewer, slug)

    def act() -> str:
        retire_template(actor=viewer, template=template)
        return f"{template.name} is retired: it starts no new jobs."

    return said_and_back(request, act, "templates:detail", slug)


@page("POST")
def template_fork(request: HttpRequest, slug: str) -> HttpResponseBase:
    """A template of one's own team with what this one says."""
    viewer = viewer_of(request)
    version = get_version(viewer, slug)
    team = get_visible_team(viewer, request.POST.get("team", ""))
    try:
        name = request.POST.get("name", "").strip() or version.template.name
        made = fork_template(actor=viewer, version=version, team=team, name=name)
    except (NotFound, Forbidden):
        raise
    except DomainError as refused:
        messages.error(request, told_of(refused, request))
        return redirect("templates:detail", slug)
    messages.success(request, f"{team.name} has its own {made.template.name} now.")
    return redirect("templates:detail", made.template.slug)


def _made(viewer: User, form: TemplateForm) -> TemplateVersion | None:
    sent = form.cleaned_data
    try:
        return create_template(
            actor=viewer,
            team=get_visible_team(viewer, sent["team"]),
            name=sent["name"],
            description=sent["description"],
            is_public=sent["is_public"],
            document=form.sent["spec"],
            rules=form.sent["rules"],
        )
    except SpecInvalid as refused:
        form.add_problems(refused)
    except DomainError as refused:
        form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
    return None


def _of_composer(request: HttpRequest, viewer: User) -> dict[str, Any]:
    """The fields of the composer's form as the text of a template; what is wrong is left out."""
    form: JobForm = offer_for(viewer).form(request.POST)
    form.is_valid()
    sent = form.document(form.cleaned_data)
    name = sent.pop("name", "")
    return {"name": name, "spec": template_text(read_partial(sent).document)}
