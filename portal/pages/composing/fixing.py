"""Changes that the composer is opened with, and the job that a changed one replaces."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, QueryDict

from accounts.errors import NotFound
from accounts.models import User
from portal.forms.composing.fixes import Fixed, with_fixes
from portal.forms.job_text import GROUPED
from portal.forms.jobs import JobForm
from portal.pages.composing.offers import Offer
from scheduler.models import Job, TemplateVersion
from scheduler.selectors.jobs import get_visible_job, job_actions
from scheduler.spec.rules import LOCKED
from scheduler.states import WAITING_JOB_STATES

MOST_FIXES = 8


def opened_with(
    request: HttpRequest, initial: dict[str, Any], version: TemplateVersion | None, offer: Offer
) -> Fixed:
    """What the form begins with, each `?fix=` of the address put into it."""
    named = request.GET.getlist("fix")[:MOST_FIXES]
    return _fixed(initial, named, version, offer)


def pressed(sent: QueryDict, version: TemplateVersion | None, offer: Offer) -> QueryDict:
    """What was posted, with the change of the row whose “Use this” was pressed."""
    named = sent.getlist("use")[:1]
    if not named:
        return sent
    fields = {name: value for name, value in sent.items() if name != "use"}
    changed = _fixed(fields, named, version, offer).fields
    data = sent.copy()
    for name, value in changed.items():
        if value is False:
            data.pop(name, None)
        elif value != fields.get(name):
            data[name] = str(value)
    return data


def replaceable(viewer: User, form: JobForm) -> Job | None:
    """The viewer's own job that was cloned, where it still waits and they may cancel it; another's
    is cancelled on its own page, with a word for its owner."""
    if form.cloned_number is None:
        return None
    try:
        job = get_visible_job(viewer, form.cloned_number)
    except NotFound:
        return None
    is_alone = job.state in WAITING_JOB_STATES and job.job_set_id is None
    is_own = job.owner_id == viewer.pk
    return job if is_alone and is_own and "cancel" in job_actions(viewer, job) else None


def _fixed(
    fields: dict[str, Any], named: list[str], version: TemplateVersion | None, offer: Offer
) -> Fixed:
    locked: set[str] = set()
    for path, rule in (version.rules if version else {}).items():
        if LOCKED in rule:
            locked |= set(GROUPED[path].values()) if path in GROUPED else {path}
    pools = [summary.pool.name for summary in offer.pools]
    return with_fixes(fields, named, pools=pools, models=offer.models, locked=locked)
