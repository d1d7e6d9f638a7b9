"""Drafts: kept while the composer is filled in, gone on with later."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from accounts.errors import Conflict, Invalid, NotFound
from accounts.models import User
from portal.forms.job_text import blank_initial, blank_session
from portal.forms.jobs import JobForm
from portal.pages.access import page, said_and_back, viewer_of
from scheduler.models import JobDraft, TemplateVersion
from scheduler.selectors.composing.drafts import get_draft
from scheduler.selectors.composing.templates import get_version
from scheduler.services.composing.drafts import drop_draft, save_draft


def keep_draft(viewer: User, form: JobForm) -> JobDraft | None:
    """Keep the fields as they were typed; None for what is too large to be kept, for an empty form
    that somebody only went through, and for one that was sent just now."""
    fields = {
        bound.name: str(bound.value())
        for bound in form
        if bound.name != "nonce" and bound.value() not in (None, "", False)
    }
    usual = form.blank | {name: fields.get(name) for name in ("project", "pool")}
    if fields.get("session_app") == "shell":
        usual |= blank_session()
    if all(value == str(usual.get(name, "")) for name, value in fields.items()):
        return None
    try:
        return save_draft(actor=viewer, key=str(form["nonce"].value() or ""), fields=fields)
    except (Conflict, Invalid):
        return None


def draft_initial(
    viewer: User, number: str
) -> tuple[dict[str, Any], TemplateVersion | None] | None:
    """What the form begins with, and its template; None if there is no such draft of the viewer."""
    if not (number.isascii() and number.isdigit() and len(number) <= 19):
        return None
    try:
        draft = get_draft(viewer, int(number))
    except NotFound:
        return None
    # A box that was cleared is missing among the fields, so no default may stand in for it.
    initial: dict[str, Any] = {**dict.fromkeys(blank_initial(), ""), **draft.fields}
    initial["nonce"] = draft.key
    version = None
    if initial.get("template"):
        try:
            version = get_version(viewer, initial["template"])
        except NotFound:
            del initial["template"]
    return initial, version


@page("POST")
def draft_drop(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Forget a draft."""
    viewer = viewer_of(request)
    draft = get_draft(viewer, pk)

    def act() -> str:
        drop_draft(actor=viewer, key=draft.key)
        return "The draft is gone."

    return said_and_back(request, act, "jobs:start")
