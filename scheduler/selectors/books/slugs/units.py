"""What a label's work cost: experiments, models, whatever people label their jobs with."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db.models import Q, Sum

from scheduler.ledger.exact import EXACT, ZERO, total
from scheduler.models import Job
from scheduler.models.exact import ExactSum
from scheduler.selectors.books.frame import (
    Ask,
    Cells,
    Column,
    Form,
    Report,
    Sheet,
    sheet_of,
)
from scheduler.selectors.books.months import books_of
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.slugs.lines import ANYBODY, PAGE, line_checks, lines_asked

_UNIT = (
    Column("label", "Label"),
    Column("jobs", "Jobs", Form.COUNT, is_summed=True),
    Column("runs", "Runs", Form.COUNT, is_summed=True),
    Column("gpu_seconds", "GPU-h", Form.SECONDS, is_summed=True),
    Column("amount", "Cost", Form.AMOUNT, is_summed=True),
    Column("per_run", "Cost per run", Form.PRICE),
    Column("currency", "Currency", is_file_only=True),
)
UNLABELLED = "(unlabelled)"


def _unit_cost(ask: Ask, scope: Scope) -> Sheet:
    """By the value of a label of the jobs; what has none is a row of its own, never dropped."""
    books = books_of(ask.period)
    lines, accounts = lines_asked(books, ask, scope)
    key = ask.label or "experiment"
    grouped = (
        lines.order_by()
        .values("attempt__job_id", "attempt_id")
        .annotate(amount_=ExactSum("amount"), seconds_=Sum("gpu_seconds"))
    )
    sums: dict[str, list[Any]] = {}
    jobs: dict[int | None, list[Any]] = {}
    for each in grouped:
        found = jobs.setdefault(each["attempt__job_id"], [0, 0, ZERO])
        found[0] += each["attempt_id"] is not None
        found[1] += each["seconds_"]
        found[2] = EXACT.add(found[2], each["amount_"])
    labels = _labels([job for job in jobs if job is not None], key)
    for job, (runs, seconds, amount) in jobs.items():
        row = sums.setdefault(labels.get(job or 0, UNLABELLED), [0, 0, 0, ZERO])
        row[0] += job is not None
        row[1] += runs
        row[2] += seconds
        row[3] = EXACT.add(row[3], amount)
    rows: list[Cells] = []
    for label in sorted(sums):
        count, runs, seconds, amount = sums[label]
        mean = (amount / runs).quantize(Decimal("0.000001")) if runs else None
        rows.append((label, count, runs, seconds, amount, mean, books.currency))
    shown = total(row[4] for row in rows if isinstance(row[4], Decimal))
    seconds = sum(row[3] for row in rows if isinstance(row[3], int))
    checks = line_checks(books, ask, accounts, scope, shown, seconds)
    return sheet_of(
        _UNIT, rows, ask, checks, currency=books.currency, version=books.version,
        state=books.state, remarks=(f"By the label “{key}”.", *books.remarks),
    )  # fmt: skip


def _labels(jobs: list[int], key: str) -> dict[int, str]:
    """Each job's value of a label, in chunks; jobs without it are left out."""
    found: dict[int, str] = {}
    for first in range(0, len(jobs), PAGE):
        chunk = Q(pk__in=jobs[first : first + PAGE])
        for pk, labels in Job.objects.filter(chunk).order_by().values_list("pk", "spec__labels"):
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
        frozenset({"team", "project", "label"}),
        ("label", "amount"),
    ),
)
