"""What a label's work cost: experiments, models, whatever people label their jobs with."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.models import Job, UsageLine
from scheduler.selectors.books.frame import (
    Ask,
    Cells,
    Column,
    Form,
    Report,
    Sheet,
    sheet_of,
)
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.slugs.lines import ANYBODY, PAGE, line_sums, lines_asked
from scheduler.selectors.books.spans import SPAN, remarks_of, span_of, standing_of
from scheduler.selectors.books.sums.ratios import mean

_UNIT = (
    Column("label", "Label"),
    Column("jobs", "Jobs", Form.COUNT, is_summed=True),
    Column("runs", "Attempts", Form.COUNT, is_summed=True),
    Column("gpu_seconds", "GPU-h", Form.SECONDS, is_summed=True),
    Column("amount", "Cost", Form.AMOUNT, is_summed=True),
    Column("per_run", "Cost per attempt", Form.PRICE, mean_of=("amount", "runs")),
    Column("currency", "Currency", is_file_only=True),
)
UNLABELLED = "(unlabelled)"


def _unit_cost(ask: Ask, scope: Scope) -> Sheet:
    """By the value of a label of the jobs; what has none is a row of its own, never dropped."""
    books = scope.books(ask.period)
    lines, accounts = lines_asked(books, ask, scope)
    key = ask.label or "experiment"
    sums_ = line_sums(books, ask, scope, lines, accounts, "attempt__job_id", "attempt_id")
    sums: dict[str, list[Any]] = {}
    jobs: dict[int | None, list[Any]] = {}
    for (job, attempt), amount, seconds in sums_.groups:
        found = jobs.setdefault(job, [0, 0, ZERO])
        found[0] += attempt is not None
        found[1] += seconds
        found[2] = EXACT.add(found[2], amount)
    labels = _labels(lines, key)
    for job, (runs, seconds, amount) in jobs.items():
        row = sums.setdefault(labels.get(job or 0, UNLABELLED), [0, 0, 0, ZERO])
        row[0] += job is not None
        row[1] += runs
        row[2] += seconds
        row[3] = EXACT.add(row[3], amount)
    rows: list[Cells] = []
    for label in sorted(sums):
        count, runs, seconds, amount = sums[label]
        rows.append((label, count, runs, seconds, amount, mean(amount, runs), books.currency))
    shown = total(row[4] for row in rows if isinstance(row[4], Decimal))
    seconds = sum(row[3] for row in rows if isinstance(row[3], int))
    checks = replace(sums_, amount=shown, seconds=seconds).checks(books.currency)
    return sheet_of(
        _UNIT, rows, ask, checks, currency=books.currency,
        remarks=(f"By the label “{key}”.", *remarks_of(books, ask)),
        **standing_of(books, span_of(books, ask)),
    )  # fmt: skip


def _labels(lines: QuerySet[UsageLine], key: str) -> dict[int, str]:
    """Each job's value of a label; jobs without it are left out. One statement."""
    found: dict[int, str] = {}
    jobs = Job.objects.filter(attempts__in=lines.order_by().values("attempt_id")).order_by()
    rows = jobs.exclude(spec__labels={}).values_list("pk", "spec__labels")
    for pk, labels in rows.iterator(PAGE):
        if isinstance(labels, dict) and labels.get(key):
            found[pk] = str(labels[key])
    return found


REPORTS = (
    Report(
        "unit-cost",
        "Cost per unit",
        "GPU-hours and cost by a label of the jobs, such as experiment or model.",
        "label",
        _UNIT,
        ANYBODY,
        _unit_cost,
        SPAN | {"team", "project", "label"},
        ("label", "per_run"),
    ),
)
