"""Log bytes and lines, for a viewer. Numbers of lines never change once a line is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.files.storage import default_storage
from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can, projects_visible_to
from scheduler.conf import load_conf
from scheduler.models import Job, LogChunk, Placement
from scheduler.selectors.kept.pieces import bytes_of
from scheduler.states import AttemptState
from scheduler.wire.messages import MAX_LOG_CHUNK

# A window never costs more than this, however long its lines are.
MAX_WINDOW_BYTES = 2 * 1024 * 1024
MAX_LINES = 5000


@dataclass(frozen=True, slots=True)
class LogWindow:
    """A run of whole lines as raw bytes.

    `next_line` is the line to ask for next; a last line without its line end is included only
    when the log is complete. `is_complete`: no more bytes will come. `offset`: where `first_line`
    begins, or the log ends before it. `arrivals`: lines in order, each with the time at which it
    and those up to the next one were whole here.
    """

    placement: Placement
    first_line: int
    raw: bytes
    next_line: int
    total_lines: int
    size: int
    is_complete: bool
    offset: int
    arrivals: tuple[tuple[int, datetime], ...] = ()


def get_readable_placement(
    viewer: User, job: Job, attempt_number: int | None = None, rank: int = 0
) -> Placement | None:
    """The stream to read; the latest attempt by default, None before the job's nodes are chosen.

    Raises Forbidden for people who may see the job but not its log, NotFound for an attempt or
    rank that does not exist.
    """
    check_reader(viewer, job)
    placements = Placement.objects.filter(attempt__job=job, rank=rank).select_related(
        "attempt", "node"
    )
    if attempt_number is not None:
        placements = placements.filter(attempt__number=attempt_number)
    placement = placements.order_by("-attempt__number").first()
    is_odd = attempt_number is not None or rank >= job.nodes
    if placement is None and (is_odd or (rank and job.attempts.exists())):
        raise NotFound("This job has no such attempt or rank.")
    return placement


def check_reader(viewer: User, job: Job) -> None:
    """Raises Forbidden for people who may see the job but not its log."""
    if not can(viewer, "view", job.project) or not can(viewer, "read_log", job.project):
        raise Forbidden("Your role may see this job, but not its log.")


def readable_placements(viewer: User) -> QuerySet[Placement]:
    """The streams whose log the viewer may read."""
    if not viewer.is_authenticated:
        return Placement.objects.none()
    return Placement.objects.filter(
        attempt__job__project__in=projects_visible_to(viewer, "read_log")
    ).select_related("attempt", "node")


def placement_of_stream(attempt_id: int, rank: int) -> Placement | None:
    """A stream read once for many; the reader of each was checked before."""
    streams = Placement.objects.filter(attempt=attempt_id, rank=rank)
    return streams.select_related("attempt", "node").first()


def read_log(
    viewer: User,
    job: Job,
    attempt_number: int | None = None,
    rank: int = 0,
    *,
    from_line: int = 1,
    count: int = 500,
) -> LogWindow | None:
    """Up to `count` lines from line `from_line` on."""
    placement = get_readable_placement(viewer, job, attempt_number, rank)
    if placement is None:
        return None
    return read_lines(placement, from_line=from_line, count=count)


def tail_log(
    viewer: User,
    job: Job,
    attempt_number: int | None = None,
    rank: int = 0,
    *,
    count: int = 500,
) -> LogWindow | None:
    """The last `count` lines, and the unfinished one when the log ended with it."""
    placement = get_readable_placement(viewer, job, attempt_number, rank)
    if placement is None:
        return None
    # One more: a last line without its line end is not counted in `log_lines`.
    first = max(1, placement.log_lines - count + 1)
    return read_lines(placement, from_line=first, count=count + 1)


def read_lines(
    placement: Placement,
    *,
    from_line: int,
    count: int,
    pieces: Sequence[LogChunk] | None = None,
) -> LogWindow:
    """As `read_log`, for a placement whose reader was checked before; `pieces`: in order, those of
    `pieces_of_window` among others, where they were read already."""
    from_line = max(1, from_line)
    count = min(max(1, count), MAX_LINES)
    read = None if pieces is None else _window_among(pieces, from_line, count)
    whole = pieces_of_window(placement, from_line, count) if read is None else read
    text, arrivals = _bytes_of(whole)
    raw, complete_lines, offset = b"", 0, placement.log_size
    start = _start_of_line(text, from_line - arrivals[0][0]) if arrivals else None
    if start is not None:
        raw, complete_lines = _cut(text[start:], count)
        offset = whole[0].offset + start
    is_complete = log_is_complete(placement)
    at_end = from_line + complete_lines > placement.log_lines
    if complete_lines == 0 and len(raw) >= MAX_WINDOW_BYTES // 2:
        # One line longer than any window: its begin stands for it, or nobody would get past it.
        raw, complete_lines = raw + b"\n", 1
    elif not at_end or not is_complete:
        raw = raw[: raw.rfind(b"\n") + 1]
    next_line = from_line + complete_lines
    if raw and not raw.endswith(b"\n"):
        next_line += 1
    return LogWindow(
        placement=placement,
        first_line=from_line,
        raw=raw,
        next_line=next_line,
        total_lines=placement.log_lines,
        size=placement.log_size,
        is_complete=is_complete,
        offset=offset,
        arrivals=tuple(arrivals),
    )


def pieces_of_window(placement: Placement, from_line: int, count: int) -> QuerySet[LogChunk]:
    """The pieces in which so many lines from `from_line` on lie, in order."""
    return _pieces_from(placement, from_line).filter(first_line__lte=from_line + count)


def _window_among(pieces: Sequence[LogChunk], from_line: int, count: int) -> list[LogChunk]:
    """The same of more of them, by the same rule."""
    before = [(one.first_line, one.offset) for one in pieces if one.first_line < from_line]
    begin = max(before)[1] if before else 0
    last = from_line + count
    return [one for one in pieces if one.offset >= begin and one.first_line <= last]


def _pieces_from(placement: Placement, line: int) -> QuerySet[LogChunk]:
    """The pieces in order, from the one on in which `line` begins: maybe the one before the first
    that starts behind it."""
    pieces = placement.log_chunks.order_by("offset")
    before = pieces.filter(first_line__lt=line).order_by("-first_line", "-offset")
    return pieces.filter(offset__gte=Coalesce(Subquery(before.values("offset")[:1]), 0))


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


def log_is_complete(placement: Placement) -> bool:
    """Whether no more bytes will come; of a placement loaded with its attempt."""
    if placement.attempt.state == AttemptState.ENDED:
        return True
    expected = placement.log_expected
    return expected is not None and placement.log_size >= expected


def has_reached_cap(placement: Placement) -> bool:
    """Whether later output was not kept, because a log keeps no more than this."""
    return placement.log_size >= load_conf().log_cap_mib * 1024 * 1024


def stream_log(placement: Placement, *, offset: int = 0) -> Iterator[bytes]:
    """All stored bytes from `offset` on, piece by piece; the reader was checked before."""
    chunks = placement.log_chunks.filter(offset__gt=offset - MAX_LOG_CHUNK).order_by("offset")
    for chunk in chunks.iterator(chunk_size=200):
        end = chunk.offset + chunk.size
        if end <= offset:
            continue
        piece = bytes_of(chunk)
        yield piece[max(0, offset - chunk.offset) :]


def stream_lines(placement: Placement, from_line: int) -> Iterator[bytes]:
    """All stored bytes from the begin of line `from_line` on; the reader was checked before."""
    skip = -1
    for chunk in _pieces_from(placement, from_line).iterator(chunk_size=200):
        piece = bytes_of(chunk)
        skip = from_line - chunk.first_line if skip < 0 else skip
        start = 0
        while skip and (end := piece.find(b"\n", start)) >= 0:
            start, skip = end + 1, skip - 1
        if not skip:
            yield piece[start:]


def read_log_bytes(attempt_id: int, rank: int, offset: int, limit: int) -> bytes:
    """Up to `limit` bytes from `offset` on, for streams whose reader was checked before."""
    placement = Placement.objects.filter(attempt_id=attempt_id, rank=rank).first()
    if placement is None:
        return b""
    parts, size = [], 0
    chunks = placement.log_chunks.filter(offset__lt=offset + limit).order_by("offset")
    first = chunks.filter(offset__lte=offset).order_by("-offset").first()
    if first is not None:
        chunks = chunks.filter(offset__gte=first.offset)
    for chunk in chunks:
        piece = bytes_of(chunk)[max(0, offset - chunk.offset) :]
        parts.append(piece)
        size += len(piece)
        if size >= limit:
            break
    return b"".join(parts)[:limit]


def last_bytes(placement: Placement, limit: int) -> tuple[bytes, int, bool]:
    """At most the last `limit` bytes, the number of the line they begin in, and whether cut there.

    For the services, which act for nobody. What the store cannot give is left out: an attempt
    has to end whether or not its log can be read.
    """
    begin = max(0, placement.log_size - limit)
    chunks = list(
        placement.log_chunks.filter(offset__gt=begin - MAX_LOG_CHUNK).order_by("-offset")[:128]
    )
    parts: list[bytes] = []
    first_line, is_cut = placement.log_lines + 1, begin > 0
    for chunk in chunks:
        if chunk.offset + chunk.size <= begin:
            break
        skip = max(0, begin - chunk.offset)
        try:
            with default_storage.open(chunk.path) as file:
                piece = file.read()
        except OSError:
            return b"".join(reversed(parts)), first_line, True
        parts.append(piece[skip:])
        first_line = chunk.first_line + piece.count(b"\n", 0, skip)
        is_cut = chunk.offset + skip > 0 and piece[skip - 1 : skip] != b"\n"
    return b"".join(reversed(parts)), first_line, is_cut
