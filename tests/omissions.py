"""Remembers what was left out, what failed, and what tests tell (`record_property("told", text)`).

With TRAINYARD_TEST_REQUIRE_ALL=1 leaving out fails.

Not of it: what needs a GPU, and what is marked `foreign`: programs not every machine can have.

`deploy/checks.py` reads the lists from the file that TRAINYARD_TEST_NOTES names and prints them
at the end.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_REQUIRES_ALL = os.environ.get("TRAINYARD_TEST_REQUIRE_ALL", "") not in ("", "0")
_MOST_LETTERS = 400
_seen: dict[str, str] = {}
_failed: dict[str, str] = {}
_told: list[str] = []


def _reason(report: Any) -> str:
    words = report.longrepr
    if isinstance(words, tuple):
        words = words[2]
    return " ".join(str(words).removeprefix("Skipped: ").split())


def _crash(report: Any) -> str:
    """The message of a failure on one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    words = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else str(report.longrepr)
    return " ".join(words.split())[:_MOST_LETTERS]


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
    if report.failed:
        _failed[report.nodeid] = _crash(report)
    if report.when == "call":
        texts = [text for name, text in report.user_properties if name == "told"]
        lines = [line for text in texts for line in text.split("\n")]
        _told.extend(f"told\t{report.nodeid}\t{line}\n" for line in lines)


def pytest_collectreport(report: Any) -> None:
    if report.skipped:
        _seen[report.nodeid] = _reason(report)
    if report.failed:
        _failed[report.nodeid] = _crash(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = os.environ.get("TRAINYARD_TEST_NOTES")
    if path and not hasattr(session.config, "workerinput"):
        with Path(path).open("a", encoding="utf-8") as file:
            for what, found in (("left out", _seen), ("failed", _failed)):
                file.writelines(f"{what}\t{name}\t{found[name]}\n" for name in sorted(found))
            file.writelines(_told)
