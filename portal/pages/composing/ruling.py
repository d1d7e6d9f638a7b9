"""What a job as it is filled in would mean: what its retry rules would have made of the last
attempt of its origin, and of what its owner would be told."""

from __future__ import annotations

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from portal.forms.jobs import JobForm
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.one_job.ruling import Tried, try_rules
from scheduler.spec import JobSpec
from scheduler.states import wish_sentence


def rules_tried(viewer: User, form: JobForm) -> Tried | None:
    """None without rules, without an origin whose log the viewer may read, or without an attempt of
    it that has ended."""
    if form.cloned_number is None or not form.spec.retry_rules:
        return None
    try:
        job = get_visible_job(viewer, form.cloned_number)
        found = try_rules(viewer, job, form.spec.retry_rules, most=1)
    except (NotFound, Forbidden):
        return None
    return found[0] if found else None


def news_of(viewer: User, spec: JobSpec) -> str:
    """Of what the viewer would be told; empty where their settings say it."""
    is_array = spec.array is not None
    return wish_sentence(spec.notify, has_mail=bool(viewer.email), is_array=is_array)
