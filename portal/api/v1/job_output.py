"""What a job puts out and costs: log lines and bytes, GPU readings, money."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.holding import HELD, on_hold
from portal.api.operations import ApiView, Query, moment, operation, whole
from portal.api.shapes import MONEY, viewer_of
from scheduler.models import Job
from scheduler.selectors import jobs as select
from scheduler.selectors import logs, telemetry, usage
from scheduler.selectors.printed.windows import MAX_LINES, LogWindow, log_is_complete
from scheduler.states import FINAL_JOB_STATES

MAX_RAW_BYTES = 1024 * 1024
MAX_WAIT_LOG_S = 20
_MAX = 2**53
ATTEMPT = Query("attempt", int, "Which attempt, from 1; the latest by default.")
RANK = Query("rank", int, "Which node's stream, from 0.")


class LogLines(serializers.Serializer[Any]):
    """Whole lines from `first_line` on, at most 2 MiB of them; go on at `next_line`, or with their
    bytes at `offset`, where `first_line` begins. What is not UTF-8 shows as U+FFFD."""

    attempt = serializers.IntegerField(allow_null=True)
    rank = serializers.IntegerField()
    first_line = serializers.IntegerField()
    lines = serializers.ListField(child=serializers.CharField())
    next_line = serializers.IntegerField()
    total_lines = serializers.IntegerField()
    offset = serializers.IntegerField()
    size = serializers.IntegerField()
    is_complete = serializers.BooleanField()


class Series(serializers.Serializer[Any]):
    """One device over time; all lists have equal length.

    Of a span of more than 2000 s about 1000 moments, fewer with more than eight devices, and its
    last minute whole. `gpu_percent` is null where the driver does not tell it (MIG instances).
    `slowed_by_heat` and `slowed_by_power`: in how many per cent of the time heat, or the limit of
    its power, held its clocks down; 0 or 100 in a reading, null where that is not told.
    """

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    node = serializers.CharField()
    rank = serializers.IntegerField(allow_null=True)
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    is_simulated = serializers.BooleanField()
    at = serializers.ListField(child=serializers.DateTimeField())
    gpu_percent = serializers.ListField(child=serializers.FloatField(allow_null=True))
    memory_used_mib = serializers.ListField(child=serializers.IntegerField())
    power_watts = serializers.ListField(child=serializers.FloatField())
    temperature_c = serializers.ListField(child=serializers.FloatField())
    slowed_by_heat = serializers.ListField(child=serializers.IntegerField(allow_null=True))
    slowed_by_power = serializers.ListField(child=serializers.IntegerField(allow_null=True))


class Samples(serializers.Serializer[Any]):
    """One series for each device."""

    items = Series(many=True)


class CostLine(serializers.Serializer[Any]):
    """One device of one attempt: seconds x price = cost; `is_open` while it counts."""

    attempt_number = serializers.IntegerField()
    node = serializers.CharField()
    rank = serializers.IntegerField()
    device_uuid = serializers.CharField()
    device_index = serializers.IntegerField()
    device_model = serializers.CharField()
    is_simulated = serializers.BooleanField()
    gpu_seconds = serializers.IntegerField()
    unit_price = serializers.DecimalField(**MONEY)
    cost = serializers.DecimalField(**MONEY)
    refunded = serializers.DecimalField(**MONEY)
    is_open = serializers.BooleanField()


class JobCost(serializers.Serializer[Any]):
    """`cost` = sum of the lines less refunds; `hourly` is what it costs per hour now."""

    gpu_seconds = serializers.IntegerField()
    cost = serializers.DecimalField(**MONEY)
    refunded = serializers.DecimalField(**MONEY)
    currency = serializers.CharField()
    hourly = serializers.DecimalField(**MONEY)
    is_final = serializers.BooleanField()
    at = serializers.DateTimeField()
    lines = CostLine(many=True)


def _stream(request: Request, pk: int) -> tuple[Job, int | None, int]:
    """The job, attempt number (None: latest) and rank a request names."""
    number = whole(request, "attempt", 0, low=1, high=2**31 - 1) or None
    rank = whole(request, "rank", 0, low=0, high=2**31 - 1)
    return select.get_visible_job(viewer_of(request), pk), number, rank


class JobSamples(ApiView):
    """`/jobs/<id>/samples/`."""

    @operation(
        "jobs_samples",
        "Readings of its GPUs",
        scope="jobs:read",
        query=[ATTEMPT, Query("since", str, "Only readings after this time.")],
        reply=Samples,
    )
    def get(self, request: Request, pk: int) -> Response:
        job, number, _ = _stream(request, pk)
        since = moment(request, "since", job.queued_at)
        series = telemetry.job_series(viewer_of(request), job, attempt_number=number, since=since)
        return Response({"items": [asdict(one) for one in series]})


class JobCostView(ApiView):
    """`/jobs/<id>/cost/`."""

    @operation("jobs_cost", "What it has cost until now", scope="costs:read", reply=JobCost)
    def get(self, request: Request, pk: int) -> Response:
        viewer = viewer_of(request)
        job = select.get_visible_job(viewer, pk)
        return Response(JobCost(usage.job_cost(viewer, job, now=timezone.now())).data)


class JobLog(ApiView):
    """`/jobs/<id>/log/`."""

    @operation(
        "jobs_log",
        "Lines of its log",
        scope="logs:read",
        query=[
            ATTEMPT,
            RANK,
            Query("from_line", int, "The first line to read, from 1."),
            Query("count", int, f"How many lines, 1 to {MAX_LINES}; 500 by default."),
            Query("tail", int, "Instead: from the last so many lines on."),
        ],
        reply=LogLines,
    )
    def get(self, request: Request, pk: int) -> Response:
        job, number, rank = _stream(request, pk)
        viewer = viewer_of(request)
        first = whole(request, "from_line", 1, low=1, high=_MAX)
        count = whole(request, "count", 500, low=1, high=MAX_LINES)
        tail = whole(request, "tail", 0, low=1, high=MAX_LINES)
        if tail:
            window = logs.tail_log(viewer, job, number, rank, count=tail)
        else:
            window = logs.read_log(viewer, job, number, rank, from_line=first, count=count)
        return Response(_show_window(window, job, rank, first))


def _show_window(window: LogWindow | None, job: Job, rank: int, first: int) -> dict[str, Any]:
    if window is None:
        return {
            "attempt": None, "rank": rank, "first_line": first, "lines": [], "next_line": first,
            "total_lines": 0, "offset": 0, "size": 0, "is_complete": job.state in FINAL_JOB_STATES,
        }  # fmt: skip
    lines = window.raw.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return {
        "attempt": window.placement.attempt.number,
        "rank": window.placement.rank,
        "first_line": window.first_line,
        "lines": lines,
        "next_line": window.next_line,
        "total_lines": window.total_lines,
        "offset": window.offset,
        "size": window.size,
        "is_complete": window.is_complete,
    }


class JobLogRaw(ApiView):
    """`/jobs/<id>/log/raw/`."""

    @operation(
        "jobs_log_raw",
        "Bytes of its log, for following",
        scope="logs:read",
        query=[
            ATTEMPT,
            RANK,
            Query("offset", int, "The first byte to read, from 0."),
            Query("wait", int, f"Hold the call until there are more, ≤ {MAX_WAIT_LOG_S} s. {HELD}"),
        ],
        reply=bytes,
        reply_type="application/octet-stream",
    )
    def get(self, request: Request, pk: int) -> HttpResponse:
        """Up to 1 MiB from `offset` on. Headers: X-Log-Attempt (0: none yet), X-Log-Next (the
        offset to go on from) and X-Log-Complete (1: no more will come in this attempt)."""
        job, number, rank = _stream(request, pk)
        offset = whole(request, "offset", 0, low=0, high=_MAX)
        wait_s = whole(request, "wait", 0, low=0, high=MAX_WAIT_LOG_S)
        placement = logs.get_readable_placement(viewer_of(request), job, number, rank)
        raw, attempt, is_complete = b"", 0, job.state in FINAL_JOB_STATES
        topic = f"job:{job.pk}"
        if placement is not None:
            raw = logs.read_log_bytes(placement.attempt_id, rank, offset, MAX_RAW_BYTES)
            attempt, topic = placement.attempt.number, f"log:{placement.attempt_id}:{rank}"
            is_complete = log_is_complete(placement) and offset + len(raw) >= placement.log_size
        reply = HttpResponse(raw, content_type="application/octet-stream")
        reply["X-Log-Attempt"] = str(attempt)
        reply["X-Log-Next"] = str(offset + len(raw))
        reply["X-Log-Complete"] = str(int(is_complete))
        held: HttpResponse = reply if raw or is_complete else on_hold(reply, topic, wait_s)
        return held
