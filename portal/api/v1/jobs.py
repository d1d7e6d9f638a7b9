"""Jobs: list, submit, read, act."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal import limits
from portal.api.errors import BadRequest
from portal.api.holding import HELD, MAX_WAIT_S, on_hold
from portal.api.operations import (
    ApiView,
    Header,
    Query,
    body_of,
    flag,
    operation,
    refuse_fast,
    whole,
)
from portal.api.pagination import PAGE_QUERY, page_of, sort_of
from portal.api.parsing import StrictJSONParser, YAMLParser
from portal.api.shapes import viewer_of
from portal.api.v1.composing.held import TEMPLATE, spec_within, submitting, template_of
from portal.api.v1.job_filters import FILTERS, filtered_jobs
from portal.api.v1.job_quotes import QuoteShape, document_of, show_quote
from portal.api.v1.job_shapes import JobDetail, JobPage, show_job, show_rows
from scheduler.loop.supposing.quoting import quote_job
from scheduler.models import Job
from scheduler.selectors import jobs as select
from scheduler.selectors.ordered.columns import JOB_COLUMNS
from scheduler.services import jobs as services
from scheduler.services.bulk import MAX_JOBS, submit_jobs
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.composing.allowing import refuse_outside
from scheduler.services.composing.templates import submit_again
from scheduler.spec import JobSpec, SpecInvalid, parse_spec

_VERSION = re.compile(r'(?:W/)?"?(\d{1,9})"?', re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,128}", re.ASCII)
IDEMPOTENCY = Header(
    "Idempotency-Key",
    "Any text of up to 128 visible ASCII characters; repeating a request with the same key and "
    "body within a day answers with the same job.",
)
_HOW = "How it was typed where it counts from the call, such as +2h; compared under the same key."
TYPED = {
    "begin": Header("Idempotency-Begin", _HOW),
    "finish_by": Header("Idempotency-Finish-By", _HOW),
}
IF_MATCH = Header("If-Match", "The `version` you read; 412 when the job has moved since.")

# Of a key that was sent before, and of a dry run.
_JOB_OR_QUOTE = PolymorphicProxySerializer(
    "JobOrQuote", [JobDetail, QuoteShape], resource_type_field_name=None
)


class BulkBody(serializers.Serializer[Any]):
    """Several job specs."""

    jobs = serializers.ListField(
        child=serializers.DictField(), min_length=1, max_length=MAX_JOBS, allow_empty=False
    )


class CloneBody(serializers.Serializer[Any]):
    """Fields of the spec to replace."""

    changes = serializers.DictField(required=False)


class Bulk(serializers.Serializer[Any]):
    """The numbers of the jobs, in the order they were sent, of an array that of its first task; and
    those of the arrays, null for a single job."""

    ids = serializers.ListField(child=serializers.IntegerField())
    sets = serializers.ListField(child=serializers.IntegerField(allow_null=True))


def idempotency_key(request: Request) -> str:
    """The header's value, empty when absent; raises BadRequest."""
    return _visible(request, IDEMPOTENCY)


def _visible(request: Request, header: Header) -> str:
    text = request.headers.get(header.name)
    if text is None:
        return ""
    if not _KEY.fullmatch(text):
        words = "must be 1 to 128 visible ASCII characters"
        raise BadRequest(
            f"{header.name} {words}.", code="bad_header", errors=[(header.name, words)]
        )
    return str(text)


def expected_version(request: Request) -> int | None:
    """The version in If-Match, None when absent or `*`; raises BadRequest."""
    text = request.META.get("HTTP_IF_MATCH", "*").strip()
    if text == "*":
        return None
    match = _VERSION.fullmatch(text)
    if match is None:
        raise BadRequest(
            "If-Match must be the job's version, such as 3.",
            code="bad_header",
            errors=[("If-Match", "must be the job's version, such as 3")],
        )
    return int(match[1])


def _with_version(request: Request, job: Job, status: int = 200) -> Response:
    shown = show_job(viewer_of(request), job, is_new=status == HTTPStatus.CREATED)
    reply = Response(shown, status=status)
    reply["ETag"] = f'W/"{job.version}"'
    return reply


def _opened(request: Request, submitted: services.Submitted) -> Response:
    job = submitted.job
    if not submitted.is_new:
        job = select.get_visible_job(viewer_of(request), job.pk)
    reply = _with_version(request, job, 201 if submitted.is_new else 200)
    reply["Location"] = f"/api/v1/jobs/{job.pk}/"
    return reply


class Jobs(ApiView):
    """`/jobs/`."""

    parser_classes = [StrictJSONParser, YAMLParser]

    @operation(
        "jobs_list",
        "Jobs you may see, newest first or as sort says",
        scope="jobs:read",
        query=[*FILTERS, *PAGE_QUERY],
        reply=JobPage,
    )
    def get(self, request: Request) -> Response:
        sort = sort_of(request, JOB_COLUMNS, "-submitted")
        show = partial(show_rows, viewer_of(request))
        return Response(page_of(request, filtered_jobs(request, viewer_of(request)), show, sort))

    @operation(
        "jobs_create",
        "Submit a job",
        scope="jobs:write",
        query=[Query("dry_run", bool, "1: only say what a submit would meet."), TEMPLATE],
        headers=[IDEMPOTENCY, *TYPED.values()],
        body={"application/json": JobSpec, "application/yaml": JobSpec},
        reply=JobDetail,
        status=201,
        replies={200: _JOB_OR_QUOTE},
    )
    def post(self, request: Request) -> Response:
        """201 with the job; 200 when the idempotency key had brought it before, or for a dry run
        (a Quote). 422 names every field that is wrong, or that a template does not allow."""
        actor, key = viewer_of(request), idempotency_key(request)
        typed = {name: text for name, one in TYPED.items() if (text := _visible(request, one))}
        version = template_of(request)
        spec = spec_within(version, document_of(request.data))
        if flag(request, "dry_run"):
            template = version.template_id if version else 0
            within = partial(refuse_outside, version) if version else None
            quote = quote_job(actor=actor, spec=spec, template=template, within=within)
            return Response(show_quote(quote, spec))
        refuse_fast(limits.SUBMIT, actor.pk)
        submit = submitting(version)
        made = submit(actor=actor, spec=spec, idempotency_key=key, typed=typed)
        return _opened(request, made)


class JobsInBulk(ApiView):
    """`/jobs/bulk/`."""

    @operation(
        "jobs_bulk_create",
        f"Submit up to {MAX_JOBS} jobs, all or none",
        scope="jobs:write",
        headers=[IDEMPOTENCY],
        body=BulkBody,
        reply=Bulk,
        status=201,
        replies={200: Bulk},
    )
    def post(self, request: Request) -> Response:
        """The body is `{"jobs": [spec, …]}`; problems are named `jobs[3].field`. `depends_on` may
        name others of them, an array for all its tasks. 200 when the idempotency key had brought
        them before."""
        key = idempotency_key(request)
        sent = body_of(request, BulkBody)["jobs"]
        specs, problems = [], []
        for index, document in enumerate(sent):
            try:
                specs.append(parse_spec(document))
            except SpecInvalid as error:
                problems += [
                    replace(one, field=f"jobs[{index}].{one.field}") for one in error.problems
                ]
        if problems:
            raise SpecInvalid(problems[:200])
        refuse_fast(limits.SUBMIT, viewer_of(request).pk)
        submitted = submit_jobs(actor=viewer_of(request), specs=specs, idempotency_key=key)
        is_new = any(one.is_new for one in submitted)
        jobs = [one.job for one in submitted]
        made = {"ids": [job.pk for job in jobs], "sets": [job.job_set_id for job in jobs]}
        return Response(made, status=201 if is_new else 200)


class JobByNumber(ApiView):
    """`/jobs/<id>/`."""

    @operation(
        "jobs_read",
        "One job",
        scope="jobs:read",
        query=[
            Query("wait", int, f"Hold the call until the job has ended, ≤ {MAX_WAIT_S} s. {HELD}")
        ],
        reply=JobDetail,
    )
    def get(self, request: Request, pk: int) -> Response:
        wait_s = whole(request, "wait", 0, low=0, high=MAX_WAIT_S)
        job = select.get_visible_job(viewer_of(request), pk)
        reply = _with_version(request, job)
        if reply.data["is_final"]:
            return reply
        held: Response = on_hold(reply, f"job:{job.pk}", wait_s)
        return held


class WhyBody(serializers.Serializer[Any]):
    """Why, in one line of at most 200 characters, for the job's owner and whoever may read it.
    Needed where the job is another's (of a release: where its owner holds it)."""

    reason = serializers.CharField(required=False, allow_blank=True)


def _action(name: str, summary: str, service: Callable[..., Job]) -> type[ApiView]:
    shapes: dict[str, Any] = {"scope": "jobs:write", "body": WhyBody, "reply": JobDetail}

    class Action(ApiView):
        @operation(f"jobs_{name}", summary, headers=[IF_MATCH], **shapes)
        def post(self, request: Request, pk: int) -> Response:
            """422 `reason_needed` without a reason for another's job."""
            version = expected_version(request)
            sent = body_of(request, WhyBody)
            actor = viewer_of(request)
            job = select.get_visible_job(actor, pk)
            moved = service(actor=actor, job=job, version=version, **sent)
            return _with_version(request, select.get_visible_job(actor, moved.pk))

    Action.__name__ = f"Job{name.title()}"
    return Action


JobCancel = _action("cancel", "End a job early; ended jobs stay as they are", services.cancel_job)
JobHold = _action("hold", "Keep a queued job from starting", hold_job)
JobRelease = _action("release", "Let a held job start", release_job)
JobPause = _action("pause", "Save, release the GPUs, hold with its queue age", pause_job)
JobResume = _action("resume", "Let a paused or held job go on", release_job)


class JobClone(ApiView):
    """`/jobs/<id>/clone/`."""

    @operation(
        "jobs_clone",
        "Submit the same job again, with changes",
        scope="jobs:write",
        headers=[IDEMPOTENCY],
        body=CloneBody,
        reply=JobDetail,
        status=201,
        replies={200: JobDetail},
    )
    def post(self, request: Request, pk: int) -> Response:
        """`{"changes": {"time_limit": "4h"}}` replaces whole fields of the spec; the rules of the
        template that it came from hold. 200 when the idempotency key had brought it before."""
        key = idempotency_key(request)
        changes = body_of(request, CloneBody).get("changes", {})
        actor = viewer_of(request)
        job = select.get_visible_job(actor, pk)
        refuse_fast(limits.SUBMIT, actor.pk)
        spec = parse_spec({**select.clone_document(actor, job), **changes})
        return _opened(
            request,
            submit_again(actor=actor, job=job, spec=spec, idempotency_key=key),
        )
