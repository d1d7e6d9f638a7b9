"""What whole runs found: the cause of each break is a test, and its seed is run again.

A seed repeats what is done and not when it meets, so the test of the cause is what holds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from portal.torture.faults import FAULTS
from tests.torture.kept import BREAKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kept", BREAKS, ids=lambda kept: kept.cause)
def test_a_break_that_was_found_has_a_test_of_its_cause(kept):
    file, _, name = kept.test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    assert set(kept.kinds) <= set(FAULTS)
