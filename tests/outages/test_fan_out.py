"""Many real sockets on one live log: every line once, in order, under its own number."""

from __future__ import annotations

import pytest

from portal.bench import logs
from portal.bench.logs import Seen

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]


def test_every_viewer_of_a_live_log_gets_every_line_once():
    figures = logs.run({"viewers": 12, "lines_per_second": 20, "seconds": 3})
    assert (figures["lines"], figures["frames_per_viewer"] > 3) == (60, True)
    assert (figures["lost"], figures["repeated"], figures["misplaced"]) == (0, 0, 0)
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]


def test_a_viewer_counts_what_is_missing_repeated_and_misplaced():
    def row(shown: int, number: int) -> str:
        return (
            f'<div class="ln" id="L{shown}"><a href="#L1">{shown}</a><span>{number} 7</span></div>'
        )

    seen = Seen()
    seen.take({"complete": False, "html": row(1, 1) + row(2, 2)}, 1_000_007)
    seen.take({"complete": True, "html": row(2, 2) + row(4, 4) + row(3, 3) + row(6, 5)}, 2_000_007)
    assert seen.took_ms == {1: 1.0, 2: 1.0, 4: 2.0, 3: 2.0, 5: 2.0}
    assert (seen.frames, seen.repeated, seen.misplaced, seen.is_complete) == (2, 1, 2, True)
