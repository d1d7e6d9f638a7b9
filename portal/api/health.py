"""For operators' monitors: is it alive, is it ready, how much of everything is there.

`/healthz` and `/readyz` are open and tell nothing about anybody. `/metrics` counts jobs and GPUs,
so it is for operators: signed in, or with an API token of an operator that has `nodes:read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import redis
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from accounts.models import User
from accounts.permissions import is_operator
from portal.api.operations import ApiView
from portal.api.shapes import viewer_of
from portal.outages import is_database_behind
from scheduler.selectors.cluster import pool_summaries
from scheduler.selectors.health import Lags, Pulse, has_scheduler, read_lags, read_pulse
from scheduler.tallies import Tally, tallies

BROKER_TIMEOUT_S = 0.5
# By field of Lags.
_OF_LAGS = {
    "oldest_job_s": ("oldest_queued_job_seconds", "Age of the job that waits longest."),
    "mail_s": ("mail_backlog_seconds", "Age of the oldest mail that is not sent."),
    "webhook_s": ("webhook_backlog_seconds", "Age of the oldest news not sent to a webhook."),
    "log_bytes": ("log_bytes_behind", "Bytes that ranks have ended with and that are not here."),
    "quarantined_gpus": ("gpus_quarantined", "GPUs out of service."),
    "clock_off_s": ("clock_skew_max_seconds", "How far a node's clock is off at most."),
    "checked_at": ("invariants_checked_timestamp_seconds", "Last look at the invariants; 0: none."),
    "broken": ("invariants_broken", "Promises found broken by it."),
    "silence_s": ("node_silence_max_seconds", "Longest silence of a node not given up."),
    "unreachable": ("attempts_unreachable", "Attempts with a rank on a node that is not heard."),
    "untaken_s": ("oldest_assignment_seconds", "Age of the oldest assignment not taken up."),
    "start_s": ("start_delay_seconds", "Assignment to start, mean of the newest attempts."),
}

# Name, what it counts, and by its label what each is called.
_TALLIES: tuple[tuple[str, str, str, Mapping[Tally, str]], ...] = (
    (
        "stale_fences_refused_total",
        "Calls and reports about attempts that are over, and plans without a lease, refused.",
        "of",
        {Tally.STALE_NODE: "node", Tally.STALE_SCHEDULER: "scheduler"},
    ),
    (
        "log_gaps_total",
        "Pieces that lacked the bytes before them, and attempts that ended without all of a log.",
        "what",
        {Tally.GAP_REFUSED: "refused", Tally.GAP_RECORDED: "recorded"},
    ),
    (
        "socket_resyncs_total",
        "Sockets closed, and logs gone on at their end, so that a page fetches anew.",
        "",
        {Tally.SOCKET_RESYNC: ""},
    ),
)


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is asked."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 `ready` or `degraded`, 503 `unready`.

    Without its database the portal can do nothing: unready. Without the broker or a scheduler it
    still takes jobs and shows everything: degraded.
    """
    checks = {"database": "ok", "broker": "ok" if broker_answers() else "down", "scheduler": "ok"}
    try:
        if not has_scheduler(now=timezone.now()):
            checks["scheduler"] = "no scheduler holds the lease; is a scheduling worker up?"
    except DatabaseError as error:
        is_behind = is_database_behind(error)
        checks["database"] = "must be migrated: manage.py prepare" if is_behind else "down"
        checks["scheduler"] = "unknown"
    is_ready = checks["database"] == "ok"
    word = "ready" if set(checks.values()) == {"ok"} else "degraded"
    reply = JsonResponse(
        {"status": word if is_ready else "unready", "checks": checks},
        status=200 if is_ready else 503,
    )
    reply["Cache-Control"] = "no-store"
    return reply


def broker_answers() -> bool:
    """Whether Valkey or Redis answers within half a second."""
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=BROKER_TIMEOUT_S,
            socket_connect_timeout=BROKER_TIMEOUT_S,
        ) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError, ValueError):
        return False


class Metrics(ApiView):
    """`/metrics` in Prometheus's text format."""

    schema = None

    def get(self, request: Request) -> HttpResponse:
        """All gauges, read now."""
        viewer = viewer_of(request)
        if not is_operator(viewer):
            raise PermissionDenied("Metrics are for operators.")
        registry = CollectorRegistry()
        now = timezone.now()
        registry.register(_Gauges(viewer, read_pulse(now=now), read_lags(now=now)))
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    get.scope = "nodes:read"  # type: ignore[attr-defined]


class _Gauges(Collector):
    def __init__(self, viewer: User, pulse: Pulse, lags: Lags) -> None:
        self._viewer, self._pulse, self._lags = viewer, pulse, lags

    def collect(self) -> Iterator[Metric]:
        pulse = self._pulse
        yield _by_label("trainyard_jobs", "Jobs by state.", "state", pulse.jobs)
        yield _by_label("trainyard_nodes", "Nodes by state.", "state", pulse.nodes)
        pools = pool_summaries(self._viewer)
        for name, about in (
            ("total", "GPUs of a pool."),
            ("allocated", "GPUs held by attempts."),
            ("free", "GPUs that could be given out now."),
            ("down", "GPUs that take no work."),
        ):
            counts = {row.pool.name: getattr(row, name) for row in pools}
            yield _by_label(f"trainyard_gpus_{name}", about, "pool", counts)
        queued = {row.pool.name: row.queued for row in pools}
        yield _by_label("trainyard_jobs_queued", "Jobs waiting for a pool.", "pool", queued)
        yield GaugeMetricFamily(
            "trainyard_scheduler_up", "1 while a scheduler holds the lease.", pulse.has_scheduler
        )
        yield GaugeMetricFamily(
            "trainyard_cycle_duration_seconds",
            "Duration of the last scheduling cycle that did something.",
            pulse.last_cycle_ms / 1000,
        )
        for field, (name, about) in _OF_LAGS.items():
            yield GaugeMetricFamily(f"trainyard_{name}", about, getattr(self._lags, field))
        yield from _counters(tallies())
        yield GaugeMetricFamily("trainyard_broker_up", "1 if the broker answers.", broker_answers())


def _counters(found: Mapping[Tally, int] | None) -> Iterator[CounterMetricFamily]:
    """Nothing where the broker, which keeps them, does not answer."""
    if found is None:
        return
    for name, about, label, of in _TALLIES:
        family = CounterMetricFamily(f"trainyard_{name}", about, labels=[label] if label else None)
        for what, value in of.items():
            family.add_metric([value] if label else [], found[what])
        yield family


def _by_label(name: str, about: str, label: str, counts: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
