"""The simulator: the recent past once more under other rules, and traces of it."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal import limits
from portal.api.operations import (
    ApiView,
    Query,
    body_of,
    choice,
    operation,
    refuse_fast,
    whole,
)
from portal.api.parts import PART_QUERY, Part, part_of
from portal.api.shapes import viewer_of
from scheduler.models import Scenario
from scheduler.selectors.cluster import get_visible_pool
from scheduler.selectors.machines.scenarios import (
    get_visible_scenario,
    past_trace,
    visible_scenarios,
)
from scheduler.services.errors import Conflict
from scheduler.services.sharing.rights import require_operator
from scheduler.services.simulating.scenarios import MOST_HOURS, ask_scenario, forget_scenario

_RUNS = ("base", "changed")


class ScenarioRow(serializers.Serializer[Any]):
    """`pool` is empty for all pools together. `progress`: waiting, running, done, empty (no job of
    that time has ended) or failed.
    """

    id = serializers.IntegerField()
    name = serializers.CharField()
    pool = serializers.CharField()
    hours = serializers.IntegerField()
    changes = serializers.ListField(child=serializers.CharField())
    progress = serializers.CharField()
    asked_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class ScenarioShape(ScenarioRow):
    """`answer` has `measures` of both settings, and the same by team and by pool."""

    answer = serializers.DictField()


class Scenarios(Part):
    """Newest first."""

    items = ScenarioRow(many=True)


class ScenarioBody(serializers.Serializer[Any]):
    """`changes` as in `nodes=12`, `policy=fair`, `preempt=yes`, `placement=pack`, `weight:TEAM=2`,
    `guaranteed:TEAM=8`, `maximum:TEAM=16`, `lose:3@3600`; of one of several pools `nodes:POOL=12`,
    `maximum:TEAM@POOL=16`, `lose:POOL/3@3600`. Without a pool all are replayed together.
    """

    pool = serializers.CharField(max_length=63, required=False, default="", allow_blank=True)
    hours = serializers.IntegerField()
    changes = serializers.ListField(child=serializers.CharField(max_length=200), max_length=100)
    name = serializers.CharField(max_length=80, required=False, default="", allow_blank=True)


class ScenarioList(ApiView):
    """`/simulator/`."""

    @operation(
        "simulator_list",
        "What was simulated (operators)",
        scope="nodes:read",
        query=PART_QUERY,
        reply=Scenarios,
    )
    def get(self, request: Request) -> Response:
        viewer = viewer_of(request)
        require_operator(viewer)
        return _all(request)

    @operation(
        "simulator_ask",
        "Replay the last hours under other rules (operators)",
        scope="nodes:write",
        body=ScenarioBody,
        reply=ScenarioShape,
        status=202,
    )
    def post(self, request: Request) -> Response:
        """A worker replays them; look at the scenario until it is done. Nothing changes by it."""
        sent, actor = body_of(request, ScenarioBody), viewer_of(request)
        name = sent.pop("pool")
        pool = get_visible_pool(actor, name) if name else None
        return Response(_shown(ask_scenario(actor=actor, pool=pool, **sent)), status=202)


class ScenarioByNumber(ApiView):
    """`/simulator/<id>/`."""

    @operation("simulator_read", "A scenario", scope="nodes:read", reply=ScenarioShape)
    def get(self, request: Request, pk: int) -> Response:
        return Response(_shown(get_visible_scenario(viewer_of(request), pk)))

    @operation("simulator_forget", "Forget a scenario", scope="nodes:write", reply=Scenarios)
    def delete(self, request: Request, pk: int) -> Response:
        actor = viewer_of(request)
        forget_scenario(actor=actor, scenario=get_visible_scenario(actor, pk))
        return _all(request)


def _all(request: Request) -> Response:
    rows = visible_scenarios(viewer_of(request)).defer("answer")
    part = part_of(
        request,
        rows,
        lambda found: [_row(one) for one in found],
        path=reverse("api:simulator"),
    )
    return Response(Scenarios(part).data)


class ScenarioTrace(ApiView):
    """`/simulator/<id>/trace/`."""

    @operation(
        "simulator_result",
        "What became of the jobs of a scenario, as a trace",
        scope="nodes:read",
        query=[Query("of", str, "base: the rules as they are; changed by default.", _RUNS)],
        reply=bytes,
        reply_type="text/csv",
    )
    def get(self, request: Request, pk: int) -> HttpResponse:
        """CSV that the simulator reads again. 409 while there is none."""
        scenario = get_visible_scenario(viewer_of(request), pk)
        of = choice(request, "of", _RUNS, "changed")
        traces = scenario.answer.get("traces", ())
        if scenario.progress != "done" or not traces:
            raise Conflict("It has no result that could be written.")
        return _file(traces[_RUNS.index(of)], f"scenario-{scenario.pk}-{of}.csv")


class PastTrace(ApiView):
    """`/simulator/trace/`."""

    @operation(
        "simulator_trace",
        "What ran in the last hours, as a job trace (operators)",
        scope="nodes:read",
        query=[
            Query("pool", str, "Of this pool; of all without it."),
            Query("hours", int, f"So many back, {MOST_HOURS} at most; 24 by default."),
        ],
        reply=bytes,
        reply_type="text/csv",
    )
    def get(self, request: Request) -> HttpResponse:
        """CSV: times, sizes, pools, teams and tiers of jobs that have ended; no names of people."""
        viewer, name = viewer_of(request), request.query_params.get("pool", "")
        hours = whole(request, "hours", 24, low=1, high=MOST_HOURS)
        require_operator(viewer)
        pool = get_visible_pool(viewer, name) if name else None
        refuse_fast(limits.EXPORT, viewer.pk)
        return _file("".join(past_trace(viewer, pool, hours, until=timezone.now())), "trace.csv")


def _file(text: str, name: str) -> HttpResponse:
    reply = HttpResponse(text, content_type="text/csv")
    reply["Content-Disposition"] = f'attachment; filename="{name}"'
    return reply


def _row(scenario: Scenario) -> dict[str, Any]:
    asker = scenario.asked_by
    return {
        "id": scenario.pk,
        "name": scenario.name,
        "pool": scenario.pool.name if scenario.pool else "",
        "hours": scenario.hours,
        "changes": scenario.changes,
        "progress": scenario.progress,
        "asked_by": asker.username if asker else "",
        "created_at": scenario.created_at,
        "finished_at": scenario.finished_at,
    }


def _shown(scenario: Scenario) -> dict[str, Any]:
    answer = {name: part for name, part in scenario.answer.items() if name != "traces"}
    return dict(ScenarioShape({**_row(scenario), "answer": answer}).data)
