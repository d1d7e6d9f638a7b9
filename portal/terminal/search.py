"""Which lines of a log match, over all of it: exact, linear in its length, stopped by a clock.

What is searched is what is shown: colours, links and the earlier states of a line that returns
overwrote are no part of it. Patterns run in RE2, an automaton, so no pattern can make it slow (Cox,
"Regular Expression Matching Can Be Simple And Fast", 2007).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import re2

MAX_PATTERN_CHARS = 200
_BLOCK = 512 * 1024
# A line longer than this is searched in parts that overlap by so much.
_LONGEST_LINE = 4 * 1024 * 1024
_OVERLAP = 4 * MAX_PATTERN_CHARS
_SMALL_AUTOMATON = 16 * 1024 * 1024
Finder = Callable[[bytes, int], int]


class PatternError(ValueError):
    """What was typed is no pattern; says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """Numbers of lines that match; `next_line`: where to go on, 0 when nothing is left.

    `cut_line`: the line, if any, that was left before its end without a match in it.
    """

    lines: list[int]
    next_line: int
    cut_line: int = 0


def finder_of(text: str, *, is_regex: bool) -> Finder:
    """Finds `text` in a block from a position on; -1 for nowhere.

    Without a capital letter in it, plain text finds capitals, too. Raises PatternError.
    """
    if not text or len(text) > MAX_PATTERN_CHARS or "\n" in text:
        raise PatternError(f"Write 1 to {MAX_PATTERN_CHARS} characters on one line.")
    wanted = text.encode("utf-8", "replace")
    if not is_regex and text != text.lower():
        return lambda block, at: block.find(wanted, at)
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.never_capture = True
    options.max_mem = _SMALL_AUTOMATON
    options.case_sensitive = is_regex
    pattern = b"(?m:" + wanted + b")" if is_regex else re2.escape(wanted)
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as wrong:
        reason = wrong.args[0] if wrong.args else ""
        said = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"Not a pattern: {said}.") from None

    def find(block: bytes, at: int) -> int:
        match = compiled.search(block, at)
        return match.start() if match and match.start() < len(block) else -1

    return find


def find_lines(
    pieces: Iterable[bytes],
    first_line: int,
    find: Finder,
    *,
    most: int,
    is_over: Callable[[], bool] = lambda: False,
    with_rest: bool = True,
) -> Found:
    """The lines in which `find` finds something, of a log whose line `first_line` begins here.

    Ends after `most` of them, or when `is_over` says so, which is asked after each block. Where to
    go on lies behind a line that was found, and behind one that takes longer than there is time
    for: whoever goes on would come back to it for ever.
    `with_rest`: the last line counts even without its line end.
    """
    lines: list[int] = []
    line = first_line
    for block in _blocks(pieces, with_rest=with_rest):
        for hit in _lines_with(_shown(block), line, find):
            # Parts of one long line may both have it.
            if lines and lines[-1] == hit:
                continue
            if len(lines) == most:
                return Found(lines, hit)
            lines.append(hit)
        line += block.count(b"\n")
        if is_over():
            is_found = lines[-1:] == [line]
            is_cut = line == first_line and not is_found
            return Found(lines, line + (is_found or is_cut), line if is_cut else 0)
    return Found(lines, 0)


def _blocks(pieces: Iterable[bytes], *, with_rest: bool) -> Iterator[bytes]:
    """Whole lines in blocks of some size; a line without an end comes in parts that overlap."""
    kept: list[bytes] = []
    size, has_end = 0, False
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        has_end = has_end or b"\n" in piece
        if size < (_BLOCK if has_end else _LONGEST_LINE):
            continue
        text = b"".join(kept)
        cut = text.rfind(b"\n") + 1 if has_end else len(text)
        yield text[:cut]
        rest = text[cut:] if has_end else text[-_OVERLAP:]
        kept, size, has_end = [rest], len(rest), False
    text = b"".join(kept)
    yield text if with_rest else text[: text.rfind(b"\n") + 1]


_NOT_SHOWN = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]?"
    # Never ended, what it says is shown: then its begin alone is none of it.
    rb"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
    rb"|\x1b[PX^_][^\x1b\n]*\x1b\\"
    rb"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n")
_RETURN = re.compile(rb"\x1b\[[01]?G")
_OVERWRITTEN = re.compile(rb"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)


def _shown(block: bytes) -> bytes:
    if b"\x1b[" in block:
        block = _RETURN.sub(b"\r", block)
    if b"\r" in block:
        block = _OVERWRITTEN.sub(b"", block)
    if b"\x1b" in block:
        block = _NOT_SHOWN.sub(b"", block)
    return block.translate(None, _CONTROLS)


def _lines_with(block: bytes, line: int, find: Finder) -> Iterator[int]:
    at = 0
    while (hit := find(block, at)) >= 0:
        line += block.count(b"\n", at, hit)
        yield line
        end = block.find(b"\n", hit)
        if end < 0:
            return
        at, line = end + 1, line + 1
