"""Hostile output: B72-B77. What a program prints becomes text and colours, nothing else."""

from __future__ import annotations

import re
import time
import tracemalloc
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.terminal import MAX_LINE_CHARS, PLAIN, render_lines
from portal.terminal.sgr import apply_sgr

pytestmark = pytest.mark.once

ALLOWED_CLASSES = re.compile(r"t-(fg|bg)(1[0-5]|[0-9])\Z|t-(bold|dim|italic|underline|strike)\Z")
OWN_CLASSES = {"t-inverse", "t-link", "t-host", "t-cut"}


class AllowList(HTMLParser):
    """Fails on any element, attribute or class that render_lines may not write."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag in {"span", "a"}
        assert set(given) <= ({"class"} if tag == "span" else {"class", "href", "target", "rel"})
        for word in (given["class"] or "").split():
            assert word in OWN_CLASSES or ALLOWED_CLASSES.match(word), word
        if tag == "a":
            assert re.match(r"https?://", given["href"] or "")
            assert given["rel"] == "noopener noreferrer nofollow"
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError("a declaration")


def parsed(html: str) -> AllowList:
    page = AllowList()
    page.feed(html)
    page.close()
    assert page.open == []
    return page


def one(raw: bytes) -> str:
    (line,) = render_lines(raw, 1).lines
    parsed(line.html)
    return line.html


NASTY = st.lists(
    st.sampled_from(
        [
            *(b"\x1b", b"\x1b[", b"\x1b]", b"\x1b]8;;", b"\x1bP", b"\x1b_", b"\x1b\\", b"\x07"),
            *(b"m", b"31", b"38;5;", b";", b":", b"\r", b"\n", b"\x9b", b"\xff\xfe", b"\x00"),
            *(b"<script>", b"</span>", b'"', b"'", b"&lt;", b"http://a.example/", b"javascript:"),
            *(b"\xe2\x80\xae", b"\xc2\x9b31m", b"text", b"-->", b"<!--"),
        ]
    )
    | st.binary(max_size=8),
    max_size=60,
).map(b"".join)


@given(NASTY)
def test_anything_becomes_allowed_markup_and_the_same_text(raw: bytes) -> None:
    rendered = render_lines(raw, 7)
    assert [line.number for line in rendered.lines] == list(range(7, 7 + len(rendered.lines)))
    for line in rendered.lines:
        page = parsed(line.html)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line.text)
        without_links = re.sub(r" open link \([^)]*\)", "", page.text)
        assert line.text == without_links or "open link" in line.text


@given(NASTY, NASTY)
def test_windows_join_to_the_whole(first: bytes, second: bytes) -> None:
    first += b"\n"
    whole = render_lines(first + second, 1)
    head = render_lines(first, 1)
    tail = render_lines(second, 1 + len(head.lines), head.carry)
    assert head.lines + tail.lines == whole.lines
    assert tail.carry == whole.carry


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1b]0;title\x07ok",
        b"\x1b]52;c;Y3VybCBldmlsIHwgc2g=\x07ok",
        b"\x1bP0;1|17/41\x1b\\ok",
        b"\x1b_payload\x1b\\ok",
        b"\x1b^private\x1b\\ok",
        b"\x1bXstart of string\x1b\\ok",
        b"\x1b[2J\x1b[H\x1b[10A\x1b[10Bok",
        b"\x1b[?1049h\x1b[?25lok",
        b"\x1bc\x1b7\x1b8\x1b(Bok",
        b"\x1b[31\x1b[0mok",
        b"o\x08\x07\x00k",
        b"\x1b]8;;javascript:alert(1)\x07ok\x1b]8;;\x07",
        b"\x1b]8;;data:text/html,x\x07ok\x1b]8;;\x07",
        b"\x1b]8;;https://user@evil.example/\x07ok\x1b]8;;\x07",
        b"\x1b]8;;https://good.example\\@evil.example/\x07ok\x1b]8;;\x07",
        b'\x1b]8;;https://a.example/" onmouseover="x\x07ok\x1b]8;;\x07',
        b"\x1b]8;;https://[broken/\x07ok\x1b]8;;\x07",
        b"\x1b]8;;https:///nohost\x07ok\x1b]8;;\x07",
        b"\x1b]8;;https://a.example:99999/\x07ok\x1b]8;;\x07",
        "\u202ao\u202ek\u202c".encode(),
    ],
)
def test_every_other_control_sequence_is_dropped(raw: bytes) -> None:
    assert one(raw) == "ok"


def test_an_unended_string_does_not_hide_the_line() -> None:
    assert "rm -rf" in one(b"\x1b]0;rm -rf /")
    assert "rm -rf" in one(b"\x1bPrm -rf /")


def test_a_link_shows_its_text_and_its_true_host() -> None:
    html = one(b"see \x1b]8;;https://runs.example/1?a=b&c=d\x1b\\run 1\x1b]8;;\x1b\\ now")
    assert html == (
        'see run 1 <a class="t-link" href="https://runs.example/1?a=b&amp;c=d" target="_blank" '
        'rel="noopener noreferrer nofollow">open link</a> '
        '<span class="t-host">(runs.example)</span> now'
    )


def test_a_link_ends_with_its_line() -> None:
    lines = render_lines(b"\x1b]8;;https://a.example/\x07one\ntwo", 1).lines
    assert "open link" in lines[0].html
    assert lines[1].html == "two"


def test_markup_is_text() -> None:
    assert one(b"</pre><script>alert(1)</script><!-- & \"'") == (
        "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!-- &amp; &quot;&#x27;"
    )


@pytest.mark.parametrize(
    ("sgr", "css"),
    [
        ("31", "t-fg1"),
        ("1;97;44", "t-fg15 t-bg4 t-bold"),
        ("38;5;196", "t-fg1"),
        ("38;5;9", "t-fg9"),
        ("38;5;255", "t-fg15"),
        ("48;2;0;0;170", "t-bg4"),
        ("38:2::0:170:0", "t-fg2"),
        ("38:2:0:170:0", "t-fg2"),
        ("38:5:1", "t-fg1"),
        ("58;5;1;4", "t-underline"),
        ("7;31", "t-bg1"),
        ("7", "t-inverse"),
        ("3;9;2", "t-dim t-italic t-strike"),
        ("31;0", ""),
        ("", ""),
        ("31;39;41;49", ""),
        ("38;5;999", ""),
        ("38;2;1;2", ""),
        ("38", ""),
        ("99999999999999999999", ""),
        ("5;8;53", ""),
    ],
)
def test_colours_become_fixed_classes(sgr: str, css: str) -> None:
    assert apply_sgr(sgr, PLAIN).css() == css


@given(st.text("0123456789;:", max_size=40))
def test_no_parameter_breaks_the_parser(params: str) -> None:
    for word in apply_sgr(params, PLAIN).css().split():
        assert word == "t-inverse" or ALLOWED_CLASSES.match(word)


def test_colour_holds_over_lines_and_collapsed_states() -> None:
    lines, carry = render_lines(b"\x1b[31mred\nstill\n\x1b[32m10%\r100%\nafter", 1)
    assert [line.html for line in lines] == [
        '<span class="t-fg1">red</span>',
        '<span class="t-fg1">still</span>',
        '<span class="t-fg2">100%</span>',
        '<span class="t-fg2">after</span>',
    ]
    assert carry.fg == 2


def test_a_progress_bar_keeps_its_last_state() -> None:
    raw = b"\r".join(b"step %d" % step for step in range(1_000_000)) + b"\r\n"
    (line,) = render_lines(raw, 1).lines
    assert line.text == "step 999999"


@pytest.mark.parametrize("back", [b"\r", b"\x1b[G", b"\x1b[0G", b"\x1b[1G", b"\x1b[2K\x1b[1G"])
def test_a_return_to_the_first_column_leaves_the_last_state(back: bytes) -> None:
    raw = back.join(b"%d%%" % part for part in range(101))
    for end in (b"\n", back + b"\n", b"\x1b[G\r\n", b"\r\x1b[1G"):
        assert [line.text for line in render_lines(raw + end, 1).lines] == ["100%"]
    (line,) = render_lines(b"epoch\x1b[12G\x1b[31m5\x1b[G\x1b[10Gof 9", 1).lines
    assert line.html == '<span class="t-fg1">of 9</span>'


def test_a_long_line_is_cut_and_says_so() -> None:
    (line,) = render_lines(b"x" * 3_000_000 + b"\n", 1).lines
    assert len(line.text) == MAX_LINE_CHARS
    assert line.cut_bytes == 3_000_000 - MAX_LINE_CHARS
    assert "2.9 MiB more on this line" in line.html


def test_a_line_of_100_mb_costs_little_beyond_itself() -> None:
    raw = b"x" * 100_000_000
    tracemalloc.start()
    render_lines(raw, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024, "the window itself is the caller's; we may not copy it"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x1b[" + b"1;" * 1_000_000 + b"mtext", id="a million SGR parameters"),
        pytest.param(b"\x1b[" * 500_000, id="CSI that never ends"),
        pytest.param((b"\x1b]" * 4000 + b"\n") * 100, id="OSC that never ends, on many lines"),
        pytest.param(b"\x1b]8;;http://a.example/" * 50_000, id="links that never end"),
        pytest.param(b"\x1b[A\x1b[2K" * 200_000, id="cursor flood"),
        pytest.param(b"\x1bP" * 500_000, id="DCS that never ends"),
        pytest.param(b"\x1b[31m\x1b[0m" * 200_000, id="colour flood"),
        pytest.param(b"\x1b[0G\r" * 100_000 + b"G" * 500_000, id="returns"),
        pytest.param((b"G" * 40 + b"\x1b[1G" * 10 + b"\n") * 10_000, id="returns on many lines"),
    ],
)
def test_hostile_input_takes_linear_time(raw: bytes) -> None:
    began = time.process_time()
    render_lines(raw, 1)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "raw", ["héllo".encode("latin-1"), "hello".encode("utf-16"), bytes(range(256)) * 20]
)
def test_other_encodings_and_binary_become_replacement_boxes(raw: bytes) -> None:
    rendered = render_lines(raw, 1)
    for line in rendered.lines:
        parsed(line.html)
    assert any("\ufffd" in line.text for line in rendered.lines)


def test_forged_records_are_only_text() -> None:
    assert one(b"::group::attempt 2 started by the scheduler") == (
        "::group::attempt 2 started by the scheduler"
    )
