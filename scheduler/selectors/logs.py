"""Log bytes and lines, for a viewer. Numbers of lines never change once a line is stored."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.files.storage import default_storage
from django.db.models import QuerySet

from accounts.errors import Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can, projects_visible_to
from scheduler.conf import load_conf
from scheduler.models import Job, Placement
from scheduler.selectors.kept.pieces import bytes_of
from scheduler.selectors.printed.windows import (
    LogWindow,
    pieces_from,
    read_last_lines,
    read_lines,
)
from scheduler.wire.messages import MAX_LOG_CHUNK


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
    return read_last_lines(placement, from_line=first, count=count + 1)


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
    for chunk in pieces_from(placement, from_line).iterator(chunk_size=200):
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
