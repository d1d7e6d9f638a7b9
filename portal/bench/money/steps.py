"""The steps behind `bench ledger`: each runs in a process of its own, so that peaks are its own."""

from __future__ import annotations

import csv
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from django.utils import timezone

from accounts.models import User
from accounts.selectors import person_named
from portal.bench.figures import tell
from portal.bench.money.filling import fill
from scheduler.ledger.periods import Month
from scheduler.selectors.books.focus import focus_rows
from scheduler.services.books import close_period, verify_ledger


def main() -> None:
    """One step; prints its figures as the last line."""
    step, segments, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    steps: dict[str, Callable[[User, Month, int, int], dict[str, Any]]] = {
        "fill": fill,
        "close": close,
        "export": _export,
        "verify": _verify,
    }
    root = person_named("admin")
    assert root is not None
    print(json.dumps(steps[step](root, last_month(), segments, seed)))


def last_month() -> Month:
    """The month that was over last."""
    now = timezone.now()
    return Month.of(int(now.replace(day=1, hour=0, minute=0, second=0).timestamp()) - 1)


def peak_mib() -> float:
    """The most memory this process has had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def cpu_s() -> float:
    """What this process has computed so far; on a busy machine it says more than a clock."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def close(root: User, last: Month, segments: int, seed: int) -> dict[str, Any]:
    """Close the month with the product\'s own service."""
    tell(f"closing {last}")
    began, before_s = time.monotonic(), cpu_s()
    closed = close_period(actor=root, period=str(last))
    took = time.monotonic() - began
    tell(f"closed in {took:.1f} s")
    return {
        "close_s": round(took, 1),
        "close_cpu_s": round(cpu_s() - before_s, 1),
        "peak_rss_mib": peak_mib(),
        "lines": closed.lines,
        "entries": closed.head_number,
        "statements": closed.statements.count(),
        "control": closed.control,
    }


def _export(root: User, last: Month, segments: int, seed: int) -> dict[str, Any]:
    tell("exporting")
    began, before_s = time.monotonic(), cpu_s()
    rows = 0
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        for row in focus_rows(root, str(last)):
            writer.writerow(row)
            rows += 1
        file.flush()
        size = os.path.getsize(file.name)
    took = time.monotonic() - began
    return {
        "export_s": round(took, 1),
        "export_cpu_s": round(cpu_s() - before_s, 1),
        "export_peak_rss_mib": peak_mib(),
        "export_rows": rows - 1,
        "export_mib": round(size / 2**20, 1),
    }


def _verify(root: User, last: Month, segments: int, seed: int) -> dict[str, Any]:
    tell("verifying")
    began = time.monotonic()
    report = verify_ledger()
    for words in report.breaks:
        tell(words)
    return {
        "balanced": not report.breaks,
        "verify_s": round(time.monotonic() - began, 1),
        "verify_peak_rss_mib": peak_mib(),
    }
