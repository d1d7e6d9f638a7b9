"""A submit over REST that starts from a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rest_framework.request import Request

from accounts.errors import NotFound
from portal.api.operations import Query
from portal.api.shapes import viewer_of
from scheduler.models import TemplateVersion
from scheduler.selectors.composing.templates import get_version
from scheduler.services.composing.allowing import refuse_outside
from scheduler.services.composing.templates import submit_from_template
from scheduler.services.jobs import Submitted, submit_job
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem, parse_spec

TEMPLATE = Query(
    "template", str, "A template, such as vision-ddp or vision-ddp@3; the body goes over its spec."
)


def template_of(request: Request) -> TemplateVersion | None:
    """The version that the query names; raises SpecInvalid for one that is not there."""
    reference = request.query_params.get("template", "")
    if not reference:
        return None
    try:
        return get_version(viewer_of(request), reference)
    except NotFound:
        words = "is no template for you; see the list of templates"
        raise SpecInvalid([SpecProblem("template", words)]) from None


def spec_within(version: TemplateVersion | None, sent: Mapping[str, Any]) -> JobSpec:
    """What was sent, laid over the version's document; raises SpecInvalid, for its rules too."""
    if version is None:
        return parse_spec(sent)
    spec = parse_spec({**version.document, **sent})
    refuse_outside(version, spec)
    return spec


def submitting(version: TemplateVersion | None) -> Callable[..., Submitted]:
    """The service that submits within the rules of a version, or without any."""
    return partial(submit_from_template, version=version) if version else submit_job
