"""What attempts cost: a row for each attempt and account that pays for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

from django.db.models import Count

from scheduler.ledger.exact import EXACT, ZERO
from scheduler.ledger.rating import ChargeKind
from scheduler.models import Placement
from scheduler.selectors.books.frame import (
    Ask,
    Column,
    Drill,
    Form,
    Report,
    Row,
    Sheet,
)
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.slugs.lines import (
    ANYBODY,
    PAGE,
    TAKES,
    in_pages,
    line_sums,
    lines_asked,
)
from scheduler.selectors.books.spans import remarks_of, span_of, standing_of

_COSTS = (
    Column("attempt", "Attempt", Form.COUNT, is_detail=True),
    Column("job", "Job", Form.COUNT, is_job=True),
    Column("number", "Try", Form.COUNT, is_detail=True),
    Column("name", "Name"),
    Column("person", "Person"),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("flavour", "GPU"),
    Column("gpus", "GPUs", Form.COUNT),
    Column("start", "Start", Form.MOMENT),
    Column("end", "End", Form.MOMENT),
    Column("gpu_seconds", "GPU-h", Form.SECONDS, is_summed=True, is_lead=True),
    Column("prices", "Per GPU-h", is_detail=True),
    Column(
        "amount", "Amount", Form.AMOUNT, is_summed=True, is_lead=True,
        drill=Drill("usage-lines", {"attempt": "attempt"}),
    ),
    Column("end_reason", "Ended"),
    Column("exit_code", "Exit", Form.COUNT, is_detail=True),
    Column("currency", "Currency", is_file_only=True),
)  # fmt: skip
_FIELDS = (
    "pk",
    "holder",
    "attempt_id",
    "account",
    "flavour",
    "kind",
    "unit_price",
    "gpu_seconds",
    "amount",
    "attempt__job_id",
    "attempt__number",
    "attempt__job__name",
    "attempt__job__owner_id",
    "attempt__job__owner__username",
    "attempt__started_at",
    "attempt__ended_at",
    "attempt__end_reason",
    "attempt__exit_code",
)


def _job_cost(ask: Ask, scope: Scope) -> Sheet:
    """Attempts in the order the close rated them; shares of idle time stand behind them."""
    books = scope.books(ask.period)
    lines, accounts = lines_asked(books, ask, scope)
    sums = line_sums(books, ask, scope, lines, accounts)

    def rows(after: int) -> Iterator[Row]:
        stream = in_pages(lines, after, *_FIELDS)
        for _, group in groupby(_with_gpus(stream), key=lambda line: line[1]):
            yield from _attempt_rows(list(group), scope, books.currency)

    return Sheet(
        rows,
        {"gpu_seconds": sums.seconds, "amount": sums.amount},
        sums.checks(books.currency),
        currency=books.currency,
        remarks=remarks_of(books, ask),
        **standing_of(books, span_of(books, ask)),
    )


def _with_gpus(lines: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Lines, each with how many devices its attempt held behind it: the job may ask for others by
    now. A statement for each page."""
    while some := list(islice(lines, PAGE)):
        held = Placement.objects.filter(attempt__in={line[2] for line in some} - {None}).order_by()
        gpus = dict(held.values_list("attempt_id").annotate(Count("allocations")))
        yield from ((*line, gpus.get(line[2])) for line in some)


def _words_of(kind: str) -> str:
    """What a line of no job is called: kept for its own account, or a share of the pool's time."""
    return "reserved and not used" if kind == ChargeKind.RESERVED_IDLE else f"{kind}, pool's share"


def _attempt_rows(lines: list[tuple[Any, ...]], scope: Scope, currency: str) -> Iterator[Row]:
    """A row for each account that pays for the holder, and where that is no attempt for each model;
    all carry the key of the last line."""
    key = lines[-1][0]
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for line in lines:
        flavour = line[4] if line[2] is None else ""
        groups.setdefault((line[3], flavour), []).append(line)
    for (account, _), found in sorted(groups.items()):
        first, place = found[0], scope.place(account)
        job, number, name, owner, username, start, end, reason, code, gpus = first[9:]
        prices = ", ".join(format(p.normalize(), "f") for p in sorted({line[6] for line in found}))
        amount = ZERO
        for line in found:
            amount = EXACT.add(amount, line[8])
        yield Row(
            key,
            (
                first[2],
                job,
                number,
                name if job is not None else _words_of(first[5]),
                scope.person(owner, username, account),
                place.team,
                place.project,
                first[4],
                gpus,
                start,
                end,
                sum(line[7] for line in found),
                prices,
                amount,
                reason or "",
                code,
                currency,
            ),
        )


REPORTS = (
    Report(
        "job-cost",
        "Job cost",
        "Every attempt with its rates and its amount; researchers see their own.",
        "attempt",
        _COSTS,
        ANYBODY,
        _job_cost,
        TAKES,
        is_streamed=True,
    ),
)
