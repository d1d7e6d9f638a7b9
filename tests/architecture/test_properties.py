"""Every promise in the table of `tests/engine/README.md` is held by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, text_of

_ROWS = re.findall(r"^\| ([^|]+) \| (`[^|]+) \|$", text_of(Path("tests/engine/README.md")), re.M)
_HELD_BY = [(promise, test) for promise, tests in _ROWS for test in re.findall(r"`([^`]+)`", tests)]


@pytest.mark.parametrize(("promise", "test"), _HELD_BY, ids=lambda words: words)
def test_every_promise_has_its_tests(promise, test):
    path, _, name = test.partition("::")
    assert name, f"{promise}: {test} names a file and no test of it"
    assert re.search(rf"^(?:def|class) {name}\b", (ROOT / path).read_text(), re.M), promise


def test_the_table_is_whole():
    assert len(_ROWS) >= 40
