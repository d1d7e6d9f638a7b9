"""Secrets for jobs: a person's own, and those of projects. Values go in and never come out."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from accounts.errors import DomainError
from accounts.selectors import managed_projects, named_project
from portal.forms.secrets import SecretForm
from portal.pages.access import page, said_and_back, viewer_of
from portal.pages.listing.leaves import leaf_of
from scheduler.selectors.secrets import get_visible_secret, visible_secrets
from scheduler.services.secrets import delete_secret, set_secret


@never_cache
@page("GET", "POST")
def secret_list(request: HttpRequest) -> HttpResponseBase:
    """The viewer's and the projects', and a form that sets one."""
    viewer = viewer_of(request)
    managed = list(managed_projects(viewer))
    form = SecretForm(request.POST if request.method == "POST" else None).offer(managed)
    if request.method == "POST" and form.is_valid():
        sent = form.cleaned_data
        try:
            project = named_project(viewer, sent.pop("project"))
            secret = set_secret(actor=viewer, project=project, **sent)
        except DomainError as refused:
            form.add_error(refused.field if refused.field in form.fields else None, refused.detail)
        else:
            messages.success(request, f"{secret.name} is kept. Nobody can read it here again.")
            return redirect("secrets:list")
    may_delete = {project.pk for project in managed}
    rows = leaf_of(request, visible_secrets(viewer), "page", size=50).made(
        lambda secret: (secret, secret.project is None or secret.project_id in may_delete)
    )
    return render(request, "settings/secrets.html", {"rows": rows, "form": form})


@page("POST")
def secret_delete(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Forget a secret; jobs that name it fail from then on."""
    viewer = viewer_of(request)
    secret = get_visible_secret(viewer, pk)

    def act() -> str:
        delete_secret(actor=viewer, secret=secret)
        return f"{secret.name} is deleted."

    return said_and_back(request, act, "secrets:list")
