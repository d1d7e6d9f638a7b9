"""The processes behind `bench pages`: one fills the database, one opens the pages."""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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
from scheduler.services.timeline.readings.hours import sum_hours


@dataclass(frozen=True, slots=True)
class Seen:
    """One run's visits of a page: what it asked the database, its compressed size, and by visit
    how long it took and the yardstick after it."""

    statements: int
    kib: float
    took_ms: list[float] = field(default_factory=list)
    yardsticks_ms: list[float] = field(default_factory=list)


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

    `yardstick_p05_ms`, `_p50_ms` and `_p95_ms`: what they were beside the visits; the first is the
    machine's own speed. `over_at_own_speed`: what is over its budget at that.
    """
    secret, read_at = invited(people["administrator"]), None
    seen: dict[str, list[Seen]] = {}
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
            one = _visit(client, address, visits)
            if one is not None:
                tell(f"{who} {address} p95 {percentile(one.took_ms, 0.95)} ms")
                seen.setdefault(f"{route} {who}", []).append(one)
    beside = [ms for each in seen.values() for run in each for ms in run.yardsticks_ms]
    own_ms = percentile(beside, 0.05)
    found = {name: _figures(each, own_ms) for name, each in seen.items()}
    opened = {name.partition(" ")[0] for name in found}
    return {
        "pages": len(opened),
        "runs": runs,
        "visits": visits,
        "yardstick_p05_ms": own_ms,
        "yardstick_p50_ms": percentile(beside, 0.5),
        "yardstick_p95_ms": percentile(beside, 0.95),
        "over_budget": _over(found, "p95_ms"),
        "over_at_own_speed": _over(found, "p95_ms_at_own_speed"),
        "not_opened": sorted(set(BUDGETS) - opened),
        "by_page": found,
    }


def _addresses(person: User, secret: str) -> dict[str, str]:
    """By route; the map first, while readings are new."""
    routes = sorted(BUDGETS, key=lambda one: (not one.startswith("cluster"), one))
    addresses = {route: address for route in routes if (address := _address(route, person))}
    secrets = {"invitation": secret, **asked_address(person)}
    return addresses | {route: reverse(route, args=[word]) for route, word in secrets.items()}


def _figures(runs: list[Seen], own_ms: float) -> dict[str, Any]:
    """The times of the run in the middle, beside them the p95 of the best and the worst run, and
    that at the machine's own speed; the most statements and bytes.

    At its own speed each visit would have taken as much less as the yardstick after it.
    """
    p95_ms, at_own_speed = list[float](), list[float]()
    for run in runs:
        visits = zip(run.took_ms, run.yardsticks_ms, strict=True)
        p95_ms.append(percentile(run.took_ms, 0.95))
        at_own_speed.append(
            percentile([ms * own_ms / max(own_ms, one) for ms, one in visits], 0.95)
        )
    return {
        "p50_ms": statistics.median_high(percentile(run.took_ms, 0.5) for run in runs),
        "p95_ms": statistics.median_high(p95_ms),
        "p95_ms_at_own_speed": statistics.median_high(at_own_speed),
        "p95_ms_best": min(p95_ms),
        "p95_ms_worst": max(p95_ms),
        "statements": max(run.statements for run in runs),
        "kib": max(run.kib for run in runs),
    }


def _over(found: Mapping[str, Mapping[str, Any]], time: str) -> list[dict[str, Any]]:
    return [
        {"page": name, "measure": measure, "value": figures[measure], "budget": budget}
        for name, figures in found.items()
        for measure, budget in _limits(BUDGETS[name.partition(" ")[0]], time)
        if figures[measure] > budget
    ]


def _limits(budget: Budget, time: str) -> list[tuple[str, int]]:
    return [(time, budget.ms), ("statements", budget.statements), ("kib", budget.kib)]


def _address(route: str, person: User) -> str:
    """Empty where this person has nothing of that kind."""
    try:
        path = reverse(route, kwargs=numbers_for(route, person))
    except NoReverseMatch:
        return ""
    query = query_for(route, person)
    return f"{path}?{query}" if query else path


def _visit(client: Client, address: str, visits: int) -> Seen | None:
    """None if the page is not for them."""
    asked: list[str] = []
    with connection.execute_wrapper(partial(noted, asked)):
        answer = client.get(address)
    if answer.status_code in (302, 403, 404):
        return None
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}")
    seen = Seen(len(asked), round(len(gzip.compress(answer.content)) / 1024, 1))
    for _ in range(visits):
        began = time.perf_counter()
        client.get(address)
        seen.took_ms.append(1000 * (time.perf_counter() - began))
        seen.yardsticks_ms.append(yardstick_ms())
    return seen


def noted(seen: list[str], execute: Any, sql: str, *more: Any) -> Any:
    """Count what asks; how a transaction is marked out is no question."""
    if not sql.startswith(("SAVEPOINT", "RELEASE", "BEGIN")):
        seen.append(sql)
    return execute(sql, *more)
