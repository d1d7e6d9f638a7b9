"""Search in a log: exact, over pieces, of what is shown, and never slow."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.terminal import render_lines
from portal.terminal.search import PatternError, find_lines, finder_of

pytestmark = pytest.mark.once


def found(log: bytes, text: str, *, is_regex: bool = False, piece: int = 1 << 20, **more):
    pieces = (log[at : at + piece] for at in range(0, len(log), piece))
    return find_lines(pieces, 1, finder_of(text, is_regex=is_regex), **{"most": 10_000, **more})


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.sampled_from([*"ab\x1b[31m\r", "\x1b[G", "\x1b[1G"]), max_size=12).map("".join),
        max_size=8,
    ),
    st.integers(1, 40),
    st.booleans(),
)
def test_finds_what_is_shown_however_it_was_cut(lines, piece, is_regex):
    """Half a control sequence at the end of a line is the renderer's own affair."""
    whole = re.compile(r"\x1b\[(31m|1?G)")
    lines = [line for line in lines if "\x1b" not in whole.sub("", line)]
    log = "\n".join([*lines, ""]).encode()
    shown = [line.number for line in render_lines(log, 1).lines if "ab" in line.text]
    assert found(log, "ab", is_regex=is_regex, piece=piece).lines == shown


@settings(max_examples=100)
@given(st.lists(st.text("ab\x1b[]0;mGP\\\x07\x00\r", max_size=16), max_size=8), st.integers(1, 40))
def test_what_is_shown_is_found_however_odd(lines, piece):
    """Titles and strings that never end are shown: a program must not hide its line in one."""
    log = "\n".join([*lines, ""]).encode()
    shown = render_lines(log, 1).lines
    for text in {"ab", "0;a", *(line.text for line in shown if line.text)}:
        wanted = [line.number for line in shown if text in line.text]
        assert found(log, text, piece=piece).lines == wanted


def test_small_letters_find_capitals_and_capitals_only_themselves():
    log = "Ärger\nERROR: x.y\nerror: xzy\n".encode()
    assert found(log, "error: x.y").lines == [2]
    assert found(log, "Error").lines == []
    assert found(log, "ärger").lines == [1]
    assert found(log, "error: x.y", is_regex=True).lines == [3]
    assert found(log, "^$", is_regex=True).lines == []


def test_many_lines_stop_where_they_can_go_on():
    log = b"x\n" * 300_000
    part = found(log, "x", most=10)
    assert (part.lines, part.next_line) == (list(range(1, 11)), 11)
    cut = found(log, "y", is_over=lambda: True, piece=1000)
    assert cut.lines == [] and 1 < cut.next_line < 300_000
    assert found(log, "y").next_line == 0


def test_a_line_without_an_end_is_searched_in_parts():
    log = b"a" * 6_000_000 + b"needle" + b"a" * 6_000_000 + b"\nneedle"
    assert found(log, "needle", piece=100_000).lines == [1, 2]
    assert found(log, "needle", piece=100_000, with_rest=False).lines == [1]


def test_a_line_without_an_end_never_leads_back_to_itself():
    """B59: who goes on where an answer ended would ask for ever, and find the same line again."""
    log = b"first\n" + b"a" * 9_000_000 + b"needle\nlast needle\n"
    over = {"is_over": lambda: True, "piece": 1 << 20}
    assert found(log, "needle", **over).next_line == 2
    rest = log[6:]
    cut = find_lines([rest[:5_000_000]], 2, finder_of("needle", is_regex=False), most=9,
                     is_over=lambda: True)  # fmt: skip
    assert (cut.lines, cut.next_line, cut.cut_line) == ([], 3, 2)
    hit = find_lines([b"x\n" + b"needle" * 900_000, b"y\n"], 7,
                     finder_of("needle", is_regex=False), most=9, is_over=lambda: True)  # fmt: skip
    assert hit.next_line in (8, 9) and hit.next_line > max([7, *hit.lines])
    # What was found is known, whatever stands behind it on its line.
    assert hit.cut_line == 0 and found(log, "needle").cut_line == 0


def test_no_pattern_is_slow():
    began = time.process_time()
    assert found(b"a" * 400_000 + b"\n", "(a|aa)+$|(a*)*b", is_regex=True).lines == [1]
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["(", "a{9999}", "(?=x)", "[z-a]", "", "a\nb", "x" * 201])
def test_what_is_no_pattern_is_refused(text):
    with pytest.raises(PatternError):
        finder_of(text, is_regex=True)
