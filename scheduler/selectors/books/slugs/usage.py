"""Usage lines one by one: what every amount is made of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from scheduler.selectors.books.frame import Ask, Column, Drill, Form, Report, Row, Sheet
from scheduler.selectors.books.scope import Scope
from scheduler.selectors.books.slugs.lines import ANYBODY, TAKES, in_pages, line_sums, lines_asked
from scheduler.selectors.books.spans import remarks_of, span_of, standing_of

_USAGE = (
    Column("line", "Line", Form.COUNT, is_file_only=True),
    Column("day", "Day", Form.DAY),
    Column("attempt", "Attempt", Form.COUNT, drill=Drill("segments", {"attempt": "attempt"})),
    Column("job", "Job", Form.COUNT, is_job=True),
    Column("team", "Team"),
    Column("project", "Project"),
    Column("flavour", "GPU"),
    Column("kind", "Kind"),
    Column("rate", "Rate"),
    Column("unit_price", "Per GPU-h", Form.PRICE),
    Column(
        "gpu_seconds", "GPU-seconds", Form.SECONDS, is_summed=True,
        drill=Drill("segments", {"attempt": "attempt"}),
    ),
    Column("amount", "Amount", Form.AMOUNT, is_summed=True),
    Column("currency", "Currency", is_file_only=True),
)  # fmt: skip
_USAGE_FIELDS = (
    "pk",
    "day_s",
    "attempt_id",
    "attempt__job_id",
    "account",
    "flavour",
    "kind",
    "rate_id",
    "unit_price",
    "gpu_seconds",
    "amount",
)


def _usage_lines(ask: Ask, scope: Scope) -> Sheet:
    books = scope.books(ask.period)
    lines, accounts = lines_asked(books, ask, scope)
    sums = line_sums(books, ask, scope, lines, accounts)

    def rows(after: int) -> Iterator[Row]:
        for found in in_pages(lines, after, *_USAGE_FIELDS):
            pk, day_s, attempt, job, account, flavour, kind, rate, price, held, owed = found
            place = scope.place(account)
            day = datetime.fromtimestamp(day_s, UTC).date()
            head = (pk, day, attempt, job, place.team, place.project, flavour, kind, str(rate))
            yield Row(pk, (*head, price, held, owed, books.currency))

    return Sheet(
        rows,
        {"gpu_seconds": sums.seconds, "amount": sums.amount},
        sums.checks(books.currency),
        currency=books.currency,
        remarks=remarks_of(books, ask),
        **standing_of(books, span_of(books, ask)),
    )


REPORTS = (
    Report(
        "usage-lines",
        "Usage lines",
        "The lines behind an amount: seconds of a day, a kind and a rate, priced once.",
        "usage line",
        _USAGE,
        ANYBODY,
        _usage_lines,
        TAKES | {"day", "flavour", "kind"},
        is_streamed=True,
        is_trail=True,
    ),
)
