"""Remembers what was left out and why; TRAINYARD_TEST_REQUIRE_ALL=1 makes each of it a failure.

Not of it: what needs a GPU, and what is marked `foreign`: programs not every machine can have.

`deploy/checks.py` reads the list from TRAINYARD_TEST_OMISSIONS and prints it at the end.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_REQUIRES_ALL = os.environ.get("TRAINYARD_TEST_REQUIRE_ALL", "") not in ("", "0")
_seen: dict[str, str] = {}


def _reason(report: Any) -> str:
    words = report.longrepr
    if isinstance(words, tuple):
        words = words[2]
    return str(words).removeprefix("Skipped: ").strip()


def _refuse(report: Any) -> None:
    if _REQUIRES_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.longrepr = f"left out although everything is required here: {_reason(report)}"
        report.outcome = "failed"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if not any(item.get_closest_marker(name) for name in ("gpu", "foreign")):
        _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    _refuse(report)
    return report


def pytest_runtest_logreport(report: Any) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _seen[report.nodeid] = _reason(report)


def pytest_collectreport(report: Any) -> None:
    if report.skipped:
        _seen[report.nodeid] = _reason(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = os.environ.get("TRAINYARD_TEST_OMISSIONS")
    if path and not hasattr(session.config, "workerinput"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.writelines(f"{name}\t{reason}\n" for name, reason in sorted(_seen.items()))
