"""The steps behind `bench reports`: each in a process of its own, so that peaks are its own."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

from accounts.models import User
from accounts.selectors import person_named
from portal.bench.money.filling import fill
from portal.bench.money.repeating import lengthen, repeat_month
from portal.bench.money.steps import close, cpu_s, last_month, peak_mib
from portal.bench.money.visits import visit_all
from portal.reports.books.files import Style, Tally, file_blocks
from scheduler.ledger.periods import Month
from scheduler.selectors.books.catalogue import open_report
from scheduler.selectors.books.frame import Ask


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
        found = repeat_month(last, months)
    elif step == "pages":
        found = {"pages": visit_all(root, last)}
    elif step == "lengthen":
        found = lengthen(last, rows)
    else:
        found = _export(root, last, step)
    print(json.dumps(found))


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
