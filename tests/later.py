"""The suite as on another day: with TRAINYARD_TEST_NOW=2028-02-29T23:55 it is that moment in UTC.

Time goes on from there, in this process alone: programs that a test starts, files that the kernel
stamps and libraries in C that ask it themselves (OpenSSL, SQLite) keep the true clock.
`make test-later` runs all that this can hold for. Unset, `conftest.py` does not load this.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest
import time_machine


def _moment(words: str) -> datetime:
    try:
        moment = datetime.fromisoformat(words)
    except ValueError as problem:
        remedy = "write a moment in UTC like 2028-02-29T23:55, or unset it"
        raise pytest.UsageError(f"TRAINYARD_TEST_NOW is {words!r}: {remedy}") from problem
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_travel = time_machine.travel(_moment(os.environ["TRAINYARD_TEST_NOW"]), tick=True)


def pytest_configure() -> None:
    _travel.start()


def pytest_unconfigure() -> None:
    _travel.stop()
