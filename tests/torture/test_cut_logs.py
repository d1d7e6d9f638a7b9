"""Logs that a full disk or their cap has cut: what is shown as missing breaks nothing."""

from __future__ import annotations

import pytest

from portal.torture.invariants import check_all
from tests.torture.bent_logs import CUT_LINE, gap_line, rewrite
from tests.torture.stories import Story, log_bytes


@pytest.mark.parametrize("at", [5, len(log_bytes(1, 12, 0, 2))], ids=["in a line", "between"])
def test_a_log_that_was_cut_and_lost_nothing_is_whole(at):
    """A full disk that had room again: the note stands between the bytes, wherever it fell."""
    story, whole = Story(), log_bytes(1, 12, 0, 3)
    rewrite(story, "b", 2, whole[:at] + CUT_LINE + whole[at:])
    assert check_all(story.evidence())["I17"].breaks == ()


def test_a_gap_that_is_shown_breaks_nothing():
    story, lines = Story(), log_bytes(1, 12, 0, 3).splitlines(keepends=True)
    rewrite(story, "b", 2, lines[0][:4] + CUT_LINE + gap_line(9) + lines[2])
    assert check_all(story.evidence())["I17"].breaks == ()
