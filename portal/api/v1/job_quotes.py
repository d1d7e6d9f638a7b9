"""`/jobs/quote/`: what a job would meet, when it starts, what it costs, before it is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.errors import BadRequest
from portal.api.operations import ApiView, operation
from portal.api.parsing import StrictJSONParser, YAMLParser
from portal.api.shapes import MONEY, viewer_of
from portal.api.v1.standing.waiting import FinishShape
from scheduler.loop.supposing.quoting import quote_job
from scheduler.services.submitting.quotes import Quote
from scheduler.spec import JobSpec, parse_spec

_LEFT: dict[str, Any] = {"max_digits": 40, "decimal_places": 10}


class EstimateShape(serializers.Serializer[Any]):
    """Start, run time and cost: half of all cases are within what has `p50` in its name, nine of
    ten within what has `p90`. Null: nobody knows, `why` says for the start.

    Costs are null where no price is set. `basis`: what the run time was learnt from. Of an array
    `start_*` is that of its first task, `last_start_p90_at` that of its last one.
    """

    start_p50_at = serializers.DateTimeField(allow_null=True)
    start_p90_at = serializers.DateTimeField(allow_null=True)
    why = serializers.CharField(allow_blank=True)
    run_p50_s = serializers.IntegerField()
    run_p90_s = serializers.IntegerField()
    basis = serializers.CharField()
    cost_p50 = serializers.DecimalField(**MONEY, allow_null=True)
    cost_p90 = serializers.DecimalField(**MONEY, allow_null=True)
    starts_now = serializers.BooleanField()
    last_start_p90_at = serializers.DateTimeField(allow_null=True)


class LimitAfterShape(serializers.Serializer[Any]):
    """A quota with the job: GPUs held now and after, of these borrowed; null sets no maximum."""

    whose = serializers.CharField()
    scope = serializers.CharField()
    held = serializers.IntegerField()
    after = serializers.IntegerField()
    guaranteed = serializers.IntegerField()
    maximum = serializers.IntegerField(allow_null=True)
    borrowed = serializers.IntegerField()
    is_over = serializers.BooleanField()


class BudgetAfterShape(serializers.Serializer[Any]):
    """A budget: left now and after the worst case, in `unit`; null if no price is set. In money the
    worst case is no more than the job's highest price.

    `commits_at`: whether the worst case is committed at the submit or at the start. `until`: when
    its period is over, after which the next budget comes by itself if it `renews`.
    """

    whose = serializers.CharField()
    unit = serializers.CharField()
    left = serializers.DecimalField(**_LEFT)
    after = serializers.DecimalField(**_LEFT, allow_null=True)
    enforcement = serializers.CharField()
    commits_at = serializers.CharField(allow_blank=True)
    until = serializers.DateTimeField()
    renews = serializers.BooleanField()
    is_over = serializers.BooleanField()


class RemedyShape(serializers.Serializer[Any]):
    """One change with which it was found likely to be finished in time; `fix` as the composer takes
    it, such as limit:3600 (seconds). Half of all cases are within `end_p50_at` and `cost_p50`. All
    costs are those of the whole job with it."""

    fix = serializers.CharField()
    words = serializers.CharField()
    end_p50_at = serializers.DateTimeField(allow_null=True)
    cost_p50 = serializers.DecimalField(**MONEY, allow_null=True)
    worst_case_cost = serializers.DecimalField(**MONEY, allow_null=True)


class QuoteShape(serializers.Serializer[Any]):
    """A dry run: what a submit would meet. Nothing was written. `worst_case_cost` is that of one
    attempt: each retry of a program that fails may cost as much again.

    `unit_price` and costs are null where no price is set. `finish` is null for a job without a
    moment to be finished by; `remedies` say what would help where it is unlikely or impossible.
    `highest`: for how long its `max_cost` is enough, empty without one. `group`: what its submit
    does to the others of its group, empty for nothing. `choice`: of one with several pools where it
    starts; the quote is of that pool, `worst_case_cost` that of the dearest.
    """

    spec = serializers.DictField()
    pool = serializers.CharField()
    tasks = serializers.IntegerField()
    gpus = serializers.IntegerField()
    free_gpus = serializers.IntegerField()
    total_gpus = serializers.IntegerField()
    jobs_ahead = serializers.IntegerField()
    is_paused = serializers.BooleanField()
    unit_price = serializers.DecimalField(**MONEY, allow_null=True)
    worst_case_cost = serializers.DecimalField(**MONEY, allow_null=True)
    currency = serializers.CharField()
    estimate = EstimateShape(allow_null=True)
    limits = LimitAfterShape(many=True)
    budgets = BudgetAfterShape(many=True)
    finish = FinishShape(allow_null=True)
    remedies = RemedyShape(many=True)
    highest = serializers.CharField(allow_blank=True)
    group = serializers.CharField(allow_blank=True)
    choice = serializers.CharField(allow_blank=True)


def document_of(sent: Any) -> Mapping[str, Any]:
    """A body as one job's spec; raises BadRequest."""
    if not isinstance(sent, Mapping):
        raise BadRequest(
            "The body must be one job spec: a mapping of fields to values.", code="not_an_object"
        )
    return sent


class JobQuote(ApiView):
    """`/jobs/quote/`."""

    parser_classes = (StrictJSONParser, YAMLParser)

    @operation(
        "jobs_quote",
        "Say what a job would meet, when it starts and what it costs; writes nothing",
        scope="jobs:read",
        body={"application/json": JobSpec, "application/yaml": JobSpec},
        reply=QuoteShape,
    )
    def post(self, request: Request) -> Response:
        """422 names every field that is wrong, as a submit would."""
        spec = parse_spec(document_of(request.data))
        return Response(show_quote(quote_job(actor=viewer_of(request), spec=spec), spec))


def show_quote(quote: Quote, spec: JobSpec) -> dict[str, Any]:
    """A dry run as QuoteShape."""
    return dict(QuoteShape({**asdict(quote), "spec": spec.readable()}).data)
