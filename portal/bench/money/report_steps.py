"""The steps behind `bench reports`: each in a process of its own, so that peaks are its own."""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connection
from django.test import Client

from accounts.models import User
from accounts.selectors import person_named
from portal.bench.figures import tell
from portal.bench.money.filling import fill
from portal.bench.money.steps import close, cpu_s, last_month, peak_mib
from portal.reports.books.files import Style, Tally, file_blocks
from scheduler.ledger.periods import Month
from scheduler.selectors.books.catalogue import open_report, reports_for
from scheduler.selectors.books.frame import Ask

_VISITS = 7


def main() -> None:
    """One step; prints its figures as the last line."""
    step = sys.argv[1]
    segments, seed, months, rows = (int(word) for word in sys.argv[2:6])
    root = person_named("admin")
    assert root is not None
    last = last_month()
    if step == "fill":
        found = fill(root, last, segments, seed)
    elif step == "close":
        found = close(root, last, segments, seed)
    elif step == "history":
        found = _history(last, months)
    elif step == "pages":
        found = _pages(root, last)
    elif step == "lengthen":
        found = _lengthen(last, rows)
    else:
        found = _export(root, last, step)
    print(json.dumps(found))


def _history(last: Month, months: int) -> dict[str, Any]:
    """The same books for the months before, straight into the tables; segments are not repeated."""
    period = _one("SELECT id FROM scheduler_period WHERE name = %s", str(last))
    month = last
    for _ in range(months - 1):
        month = Month.of(month.start_s - 1)
        top = _one("SELECT MAX(number) FROM scheduler_ledgerentry")
        _copy("scheduler_period", {"name": f"'{month}'"}, "id", period)
        copy = _one("SELECT id FROM scheduler_period WHERE name = %s", str(month))
        mine = {"period_id": str(copy)}
        _copy("scheduler_periodclose", mine, "period_id", period)
        _copy("scheduler_usageline", mine, "period_id", period)
        entries = {"service_period_id": str(copy), "number": f"number + {top}"}
        _copy("scheduler_ledgerentry", {**mine, **entries}, "period_id", period)
    return {
        "months": months,
        "all_lines": _one("SELECT COUNT(*) FROM scheduler_usageline"),
        "all_entries": _one("SELECT COUNT(*) FROM scheduler_ledgerentry"),
    }


def _copy(table: str, changed: dict[str, str], key: str, value: int, most: int = 2**62) -> None:
    """Rows of a month once more, with some columns as these expressions say."""
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table)
        names = [column.name for column in described if column.name != "id"]
        values = ", ".join(changed.get(name, f'"{name}"') for name in names)
        listed = ", ".join(f'"{name}"' for name in names)
        cursor.execute(
            f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table} "  # noqa: S608
            f"WHERE {key} = %s ORDER BY id LIMIT %s",
            [value, most],
        )


def _one(statement: str, *values: Any) -> int:
    """A number."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.fetchone()[0])


def _pages(root: User, last: Month) -> dict[str, Any]:
    """Every report page as an administrator: statements, milliseconds of CPU, size."""
    client = Client(headers={"host": "localhost"})
    client.force_login(root)
    found = {}
    for report in reports_for(root):
        address = f"/finance/reports/{report.slug}/?period={last}"
        statements: list[str] = []
        with connection.execute_wrapper(partial(_noted, statements)):
            answer = client.get(address)
        if answer.status_code != 200:
            raise RuntimeError(f"{address} answered {answer.status_code}")
        spans = []
        for _ in range(_VISITS):
            began = cpu_s()
            client.get(address)
            spans.append(1000 * (cpu_s() - began))
        found[report.slug] = {
            "sql": len(statements),
            "cpu_ms": round(statistics.median(spans), 1),
            "worst_ms": round(max(spans), 1),
            "gz_kib": round(len(gzip.compress(answer.content)) / 1024, 1),
        }
        tell(f"{report.slug}: {found[report.slug]}")
    return {"pages": found}


def _noted(statements: list[str], execute: Callable[..., Any], sql: str, *more: Any) -> Any:
    """A statement, written down on its way to the database."""
    statements.append(sql)
    return execute(sql, *more)


def _lengthen(last: Month, rows: int) -> dict[str, Any]:
    """The month's lines again and again until there are so many. Its checks fail from here on."""
    period = _one("SELECT id FROM scheduler_period WHERE name = %s", str(last))
    count = "SELECT COUNT(*) FROM scheduler_usageline WHERE period_id = %s"
    while (missing := rows - _one(count, period)) > 0:
        _copy("scheduler_usageline", {}, "period_id", period, missing)
    return {"rows": _one(count, period)}


def _export(root: User, last: Month, form: str) -> dict[str, Any]:
    """The lines as a file of a format, as a download makes it."""
    began, before_s, base = time.monotonic(), cpu_s(), peak_mib()
    tally, size = Tally(), 0
    report, sheet = open_report(root, "usage-lines", Ask(str(last)), is_whole=True)
    with tempfile.TemporaryFile() as file:
        for block in file_blocks(report, sheet, form, Style(), tally):
            file.write(block)
            size += len(block)
    return {
        f"{form}_s": round(time.monotonic() - began, 1),
        f"{form}_cpu_s": round(cpu_s() - before_s, 1),
        f"{form}_base_rss_mib": base,
        f"{form}_peak_rss_mib": peak_mib(),
        f"{form}_rows": tally.rows,
        f"{form}_mib": round(size / 2**20, 1),
    }
