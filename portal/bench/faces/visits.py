"""The processes behind `bench pages`: one fills the database, one opens the pages."""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import time
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

from django.db import connection
from django.test import Client
from django.urls import NoReverseMatch, reverse

from accounts.models import User
from accounts.selectors import person_named
from portal.bench.faces.budgets import BUDGETS, Budget
from portal.bench.faces.filling import fill, researcher
from portal.bench.faces.particulars import asked_address, invited
from portal.bench.faces.places import numbers_for, query_for
from portal.bench.faces.readings import read_devices
from portal.bench.figures import percentile, tell, yardstick_ms
from scheduler.collecting import settle
from scheduler.services.timeline.read_hours import sum_hours


def main() -> None:
    """One step; prints its figures as the last line."""
    step, *numbers = sys.argv[1:]
    root = person_named("admin")
    assert root is not None
    if step == "fill":
        jobs, pending, nodes = (int(word) for word in numbers)
        print(json.dumps(fill(root, jobs, pending, nodes)))
    else:
        people = {"researcher": researcher(), "administrator": root}
        runs, visits = (int(word) for word in numbers)
        print(json.dumps(_visit_all(people, runs, visits)))


def _visit_all(people: Mapping[str, User], runs: int, visits: int) -> dict[str, Any]:
    """Every page as each of the people who may open it, in each run; of its times the median of
    runs, as machines waver for minutes.

    `yardstick_p50_ms` and `yardstick_p95_ms`: what they were while pages were opened.
    """
    secret, read_at = invited(people["administrator"]), None
    seen: dict[str, list[dict[str, Any]]] = {}
    yardsticks: list[float] = []
    for _, (who, person) in product(range(runs), people.items()):
        read_at = read_devices(read_at)
        # As the task does every minute.
        sum_hours(now=read_at)
        client = Client(headers={"host": "localhost"})
        client.force_login(person)
        addresses = _addresses(person, secret)
        for address in addresses.values():
            client.get(address)
        # As the server does once its pages are loaded.
        settle()
        for route, address in addresses.items():
            yardsticks.append(yardstick_ms())
            figures = _visit(client, address, visits)
            if figures is not None:
                tell(f"{who} {address} {figures}")
                seen.setdefault(f"{route} {who}", []).append(figures)
    found = {name: _median(figures) for name, figures in seen.items()}
    opened = {name.partition(" ")[0] for name in found}
    return {
        "pages": len(opened),
        "runs": runs,
        "visits": visits,
        "yardstick_p50_ms": percentile(yardsticks, 0.5),
        "yardstick_p95_ms": percentile(yardsticks, 0.95),
        "over_budget": _over(found),
        "not_opened": sorted(set(BUDGETS) - opened),
        "by_page": found,
    }


def _addresses(person: User, secret: str) -> dict[str, str]:
    """By route; the map first, while readings are new."""
    routes = sorted(BUDGETS, key=lambda one: (not one.startswith("cluster"), one))
    addresses = {route: address for route in routes if (address := _address(route, person))}
    secrets = {"invitation": secret, **asked_address(person)}
    return addresses | {route: reverse(route, args=[word]) for route, word in secrets.items()}


def _median(figures: list[dict[str, Any]]) -> dict[str, Any]:
    """The times of the run in the middle, beside them the p95 of the best and the worst run; the
    most statements and bytes."""
    p95_ms = [one["p95_ms"] for one in figures]
    times = {
        name: statistics.median_high(one[name] for one in figures)
        for name in ("p50_ms", "p95_ms", "cpu_ms")
    }
    counts = {name: max(one[name] for one in figures) for name in ("statements", "kib")}
    return {**times, "p95_ms_best": min(p95_ms), "p95_ms_worst": max(p95_ms), **counts}


def _over(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"page": name, "measure": measure, "value": figures[measure], "budget": budget}
        for name, figures in found.items()
        for measure, budget in _limits(BUDGETS[name.partition(" ")[0]])
        if figures[measure] > budget
    ]


def _limits(budget: Budget) -> list[tuple[str, int]]:
    return [("p95_ms", budget.ms), ("statements", budget.statements), ("kib", budget.kib)]


def _address(route: str, person: User) -> str:
    """Empty where this person has nothing of that kind."""
    try:
        path = reverse(route, kwargs=numbers_for(route, person))
    except NoReverseMatch:
        return ""
    query = query_for(route, person)
    return f"{path}?{query}" if query else path


def _visit(client: Client, address: str, visits: int) -> dict[str, Any] | None:
    """None if the page is not for them."""
    seen: list[str] = []
    with connection.execute_wrapper(partial(noted, seen)):
        answer = client.get(address)
    if answer.status_code in (302, 403, 404):
        return None
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    took, used = [], []
    for _ in range(visits):
        began, computed = time.perf_counter(), time.process_time()
        client.get(address)
        took.append(1000 * (time.perf_counter() - began))
        used.append(1000 * (time.process_time() - computed))
    return {
        "p50_ms": percentile(took, 0.5),
        "p95_ms": percentile(took, 0.95),
        "cpu_ms": round(statistics.median(used), 1),
        "statements": len(seen),
        "kib": round(len(gzip.compress(answer.content)) / 1024, 1),
    }


def noted(seen: list[str], execute: Any, sql: str, *more: Any) -> Any:
    """Count what asks; how a transaction is marked out is no question."""
    if not sql.startswith(("SAVEPOINT", "RELEASE", "BEGIN")):
        seen.append(sql)
    return execute(sql, *more)
