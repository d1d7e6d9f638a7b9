"""What each page of money costs: statements, milliseconds of CPU, size; and what it may cost."""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection
from django.test import Client

from accounts.models import User
from portal.bench.figures import tell
from portal.bench.money.repeating import one
from portal.bench.money.steps import cpu_s
from scheduler.ledger.periods import Month
from scheduler.selectors.books.catalogue import reports_for

_VISITS = 7


@dataclass(frozen=True, slots=True)
class Page:
    """An address, and the most milliseconds, statements and KiB (compressed) it should take."""

    name: str
    address: str
    ms: int
    sql: int
    kib: int


def pages_of_money(viewer: User, last: Month) -> Iterator[Page]:
    """Every page of finance and of asking for quota that this person may open."""
    for report in reports_for(viewer):
        yield Page(report.slug, f"/finance/reports/{report.slug}/?period={last}", 400, 8, 60)
    yield Page("finance", "/finance/", 200, 10, 25)
    yield Page("periods", "/finance/periods/", 250, 10, 25)
    newest = one("SELECT COALESCE(MAX(number), 0) FROM scheduler_statement")
    if newest:
        yield Page("statement", f"/finance/statements/{newest}/", 200, 6, 30)
    yield Page("budgets", "/finance/budgets/", 200, 8, 25)
    for name in ("prices", "adjustments", "exports", "assets", "costs", "terms", "schedules"):
        yield Page(f"{name} (desk)", f"/finance/{name}/", 200, 8, 25)
    yield Page("focus", "/finance/focus/", 200, 8, 25)
    yield Page("approvals", "/approvals/?state=all", 120, 7, 25)
    yield Page("requests", "/requests/", 120, 8, 20)
    yield Page("ask", "/requests/new/", 120, 8, 20)


def visit_all(root: User, last: Month) -> dict[str, Any]:
    """All of them as an administrator, some times each; what is over its budget is marked."""
    client = Client(headers={"host": "localhost"})
    client.force_login(root)
    found = {}
    for page in pages_of_money(root, last):
        count, size = look(client, page)
        spans = []
        for _ in range(_VISITS):
            began = cpu_s()
            client.get(page.address)
            spans.append(1000 * (cpu_s() - began))
        usual = round(statistics.median(spans), 1)
        found[page.name] = {
            "sql": count,
            "cpu_ms": usual,
            "worst_ms": round(max(spans), 1),
            "gz_kib": size,
            "is_over": usual > page.ms or count > page.sql or size > page.kib,
        }
        tell(f"{page.name}: {found[page.name]}")
    return found


def look(client: Client, page: Page) -> tuple[int, float]:
    """Its statements, and its KiB as it is sent."""
    statements: list[str] = []
    with connection.execute_wrapper(partial(_noted, statements)):
        answer = client.get(page.address)
    if answer.status_code != 200:
        raise RuntimeError(f"{page.address} answered {answer.status_code}")
    return len(statements), round(len(gzip.compress(answer.content)) / 1024, 1)


def _noted(statements: list[str], execute: Callable[..., Any], sql: str, *more: Any) -> Any:
    """A statement, written down on its way to the database."""
    statements.append(sql)
    return execute(sql, *more)
