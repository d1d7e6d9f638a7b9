"""Windows on a rank's log: runs of whole lines, of bounded cost however long its lines are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from scheduler.models import LogChunk, Placement
from scheduler.selectors.kept.pieces import bytes_of
from scheduler.states import AttemptState

# A window never costs more than this, however long its lines are.
MAX_WINDOW_BYTES = 2 * 1024 * 1024
MAX_LINES = 5000
# No log is as large.
_NO_END = 2**63 - 1
# A bar may come in thousands of pieces; its last state is in the last few.
_MOST = 64
# To the first column, as portal.terminal reads it.
_RETURN = re.compile(rb"\r|\x1b\[[01]?G")


@dataclass(frozen=True, slots=True)
class LogWindow:
    """A run of whole lines as raw bytes; of a line longer than any window its end, or where no
    carriage return parts that from what was before it, its begin.

    `next_line` is the line to ask for next; a last line without its line end is included only
    when the log is complete, and not read before. `total_lines`: line ends, and that last line
    where it is still to be asked for. `is_complete`: no more bytes will come. `begin`: `offset`,
    where it was found on the way. `arrivals`: lines in order, each with the time at which it and
    those up to the next one were whole here.
    """

    placement: Placement
    first_line: int
    raw: bytes
    next_line: int
    total_lines: int
    size: int
    is_complete: bool
    begin: int | None
    arrivals: tuple[tuple[int, datetime], ...] = ()

    @property
    def offset(self) -> int:
        """Where `first_line` begins, or the log ends before it; reads a piece where it is the line
        that is being written."""
        return _begin_of_line(self.placement, self.first_line) if self.begin is None else self.begin


def read_lines(
    placement: Placement,
    *,
    from_line: int,
    count: int,
    pieces: Sequence[LogChunk] | None = None,
) -> LogWindow:
    """Up to `count` lines from line `from_line` on, as many as a window holds, of a placement whose
    reader was checked; `pieces`: in order, those of `pieces_of_window` among others, where they
    were read already."""
    from_line, count = _bounded(placement, from_line, count)
    if count == 0:
        return _nothing_yet(placement, from_line)
    whole = _pieces_of(placement, from_line, count, pieces)
    text, arrivals = _bytes_of(whole)
    raw, complete_lines, offset = b"", 0, placement.log_size
    start = _start_of_line(text, from_line - arrivals[0][0]) if arrivals else None
    if start is not None:
        raw, complete_lines = _cut(text[start:], count)
        offset = whole[0].offset + start
    end = offset + len(raw)
    is_cut = len(text) < sum(one.size for one in whole)
    is_complete = log_is_complete(placement)
    is_whole_line = from_line <= placement.log_lines
    if is_cut and complete_lines == 0 and (is_whole_line or is_complete):
        raw, end = _long_line(placement, from_line, raw, with_end=is_whole_line)
        complete_lines = int(is_whole_line)
    elif is_cut or not is_complete or from_line + complete_lines <= placement.log_lines:
        raw = raw[: raw.rfind(b"\n") + 1]
        end = offset + len(raw)
    next_line = from_line + complete_lines
    if raw and not raw.endswith(b"\n"):
        next_line += 1
    is_rest_left = is_complete and next_line == placement.log_lines + 1 and end < placement.log_size
    return LogWindow(
        placement=placement,
        first_line=from_line,
        raw=raw,
        next_line=next_line,
        total_lines=placement.log_lines + is_rest_left,
        size=placement.log_size,
        is_complete=is_complete,
        begin=offset,
        arrivals=tuple(arrivals),
    )


def read_last_lines(
    placement: Placement,
    *,
    from_line: int,
    count: int,
    pieces: Sequence[LogChunk] | None = None,
) -> LogWindow:
    """As `read_lines`, but where a window does not hold all of them, the last of them."""
    from_line, count = _bounded(placement, from_line, count)
    if count == 0:
        return _nothing_yet(placement, from_line)
    wanted = _pieces_of(placement, from_line, count, pieces)
    kept = _last_that_fit(wanted)
    if len(kept) == len(wanted):
        return read_lines(placement, from_line=from_line, count=count, pieces=wanted)
    begun = kept[0].first_line
    left = from_line + count - begun - 1
    if left > 0:
        window = read_lines(placement, from_line=begun + 1, count=left, pieces=kept)
        if window.raw:
            return window
    # No line begins in what is kept: it is one line longer than any window.
    return read_lines(placement, from_line=begun, count=1)


def pieces_of_window(placement: Placement, from_line: int, count: int) -> QuerySet[LogChunk]:
    """The pieces in which so many lines from `from_line` on lie, in order."""
    behind = placement.log_chunks.filter(first_line__gte=from_line + count)
    end = behind.order_by("first_line", "offset").values("offset")[:1]
    # By offset alone, from where to where: beside another bound on lines the one or the other end
    # of a long log would be gone through.
    return pieces_from(placement, from_line).filter(offset__lt=Coalesce(Subquery(end), _NO_END))


def pieces_from(placement: Placement, line: int) -> QuerySet[LogChunk]:
    """The pieces in order, from the one on in which `line` begins: maybe the one before the first
    that starts behind it."""
    pieces = placement.log_chunks.order_by("offset")
    before = pieces.filter(first_line__lt=line).order_by("-first_line", "-offset")
    return pieces.filter(offset__gte=Coalesce(Subquery(before.values("offset")[:1]), 0))


def log_is_complete(placement: Placement) -> bool:
    """Whether no more bytes will come; of a placement loaded with its attempt."""
    if placement.attempt.state == AttemptState.ENDED:
        return True
    expected = placement.log_expected
    return expected is not None and placement.log_size >= expected


def count_lines(placement: Placement) -> int:
    """How many lines a reader sees: when no more bytes come, a last one without its end, too."""
    if not log_is_complete(placement):
        return placement.log_lines
    return read_lines(placement, from_line=placement.log_lines + 1, count=1).next_line - 1


def _bounded(placement: Placement, from_line: int, count: int) -> tuple[int, int]:
    """Both within bounds; none of a line that is still being written, which would be read each time
    it grows."""
    # A tail of the most lines is followed by the one that the log ended in.
    from_line, count = max(1, from_line), min(max(1, count), MAX_LINES + 1)
    if not log_is_complete(placement):
        count = max(0, min(count, placement.log_lines - from_line + 1))
    return from_line, count


def _nothing_yet(placement: Placement, line: int) -> LogWindow:
    """From a line on that is not whole yet."""
    return LogWindow(
        placement=placement,
        first_line=line,
        raw=b"",
        next_line=line,
        total_lines=placement.log_lines,
        size=placement.log_size,
        is_complete=False,
        begin=None if line == placement.log_lines + 1 else placement.log_size,
    )


def _begin_of_line(placement: Placement, line: int) -> int:
    """Where the line after the last whole one begins: behind the last line end."""
    ended = placement.log_chunks.filter(first_line__lt=line).order_by("-first_line", "-offset")
    piece = ended.first()
    return 0 if piece is None else piece.offset + bytes_of(piece).rfind(b"\n") + 1


def _pieces_of(
    placement: Placement, from_line: int, count: int, pieces: Sequence[LogChunk] | None
) -> list[LogChunk]:
    """Those of `pieces_of_window`, read or, by the same rule, among `pieces`."""
    if pieces is None:
        return list(pieces_of_window(placement, from_line, count))
    before = [(one.first_line, one.offset) for one in pieces if one.first_line < from_line]
    begin = max(before)[1] if before else 0
    end = from_line + count
    return [one for one in pieces if one.offset >= begin and one.first_line < end]


def _last_that_fit(pieces: list[LogChunk]) -> list[LogChunk]:
    size = 0
    for at in range(len(pieces) - 1, -1, -1):
        size += pieces[at].size
        if size > MAX_WINDOW_BYTES:
            return pieces[at + 1 :]
    return pieces


def _long_line(
    placement: Placement, line: int, begin: bytes, *, with_end: bool
) -> tuple[bytes, int]:
    """What stands for a line longer than a window, of which `begin` was read; and its end's offset.

    A bar of progress is what it was last: its last bytes. Where those hold no return to the first
    column, the begin of the line is what a reader sees of it.
    """
    parts: list[bytes] = []
    size = end = stop = 0
    for chunk in placement.log_chunks.filter(first_line__lte=line).order_by("-offset")[:_MOST]:
        piece = bytes_of(chunk)
        if not parts:
            end = piece.find(b"\n") + 1 if with_end else len(piece)
            piece, stop = piece[:end], chunk.offset + end
        parts.append(piece)
        size += len(piece)
        if size > MAX_WINDOW_BYTES:
            break
    text = b"".join(reversed(parts))
    text = text[text.rfind(b"\n", 0, len(text) - with_end) + 1 :]
    if _RETURN.search(text.rstrip(b"\r\n")):
        return text, stop
    return begin + b"\n" * with_end, stop


def _bytes_of(pieces: Iterable[LogChunk]) -> tuple[bytes, list[tuple[int, datetime]]]:
    """Their bytes up to the cap; and when the lines of each were whole."""
    parts, size = [], 0
    arrivals = []
    for chunk in pieces:
        parts.append(bytes_of(chunk))
        arrivals.append((chunk.first_line, chunk.created_at))
        size += chunk.size
        if size > MAX_WINDOW_BYTES:
            break
    return b"".join(parts), arrivals


def _start_of_line(text: bytes, skip: int) -> int | None:
    """Where the line after `skip` line ends begins; None when there are fewer."""
    position = 0
    for _ in range(skip):
        position = text.find(b"\n", position) + 1
        if position == 0:
            return None
    return position


def _cut(text: bytes, count: int) -> tuple[bytes, int]:
    """The first `count` lines of `text` and how many line ends they hold."""
    position = 0
    for done in range(count):
        end = text.find(b"\n", position)
        if end < 0:
            return text, done
        position = end + 1
    return text[:position], count
