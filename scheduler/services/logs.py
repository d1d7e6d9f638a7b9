"""Log bytes to storage: by offset, idempotent, acknowledged when durable; waited for at the end."""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime, timedelta

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery
from django.utils import timezone

from scheduler import events
from scheduler.conf import load_conf
from scheduler.failpoints import reach
from scheduler.models import Attempt, LogChunk, Node, Placement
from scheduler.services import transitions
from scheduler.services.attempts import end_attempt, locked_live_attempt, settle
from scheduler.services.errors import Conflict, Invalid, LogGap, NotFound
from scheduler.services.history import record_node_event
from scheduler.services.holding.following import lock_sets_over
from scheduler.services.preempting.ordering import UNREAD_S
from scheduler.services.timeline.clock import CLOCK
from scheduler.services.timeline.late_logs import takes_more
from scheduler.states import LIVE_ATTEMPT_STATES, AttemptState
from scheduler.tallies import Tally, tally
from scheduler.wire.messages import MAX_LOG_CHUNK, LogAck

# A log that comes byte by byte is not waited for for ever.
_LONGEST_DRAIN = timedelta(minutes=30)

logger = logging.getLogger(__name__)


def append_log(
    *, node: Node, fence: int, rank: int, offset: int, body: bytes, now: datetime | None = None
) -> LogAck:
    """Store `body` at `offset` of a rank's log; answers with how many bytes are durable.

    1. A stream that is not this node's does not exist; a closed one takes no more.
    2. Known bytes are skipped, so repeating a chunk changes nothing; a hole is refused.
    3. The bytes are stored first, then the row and the size in one transaction whose guard is the
       old size: of two racing appends one wins and the other's object is unused. Names are of
       contents, so that a late and shorter one never takes the place of what was acknowledged.
    4. The last byte may be what the attempt's end was waiting for. One that ended without them
       stays as it ended: they are for those who read the log.

    Raises NotFound, LogGap, Conflict (`log_closed`, `log_full`, `log_conflict`) or Invalid.
    """
    now = now or timezone.now()
    if offset < 0 or len(body) > MAX_LOG_CHUNK:
        raise Invalid(f"Send at most {MAX_LOG_CHUNK} bytes from offset 0 on.", field="offset")
    placement = (
        Placement.objects.select_related("attempt", "node")
        .filter(node=node, attempt_id=fence, rank=rank)
        .first()
    )
    if placement is None:
        raise NotFound("This node has no such attempt.")
    size = placement.log_size
    if offset > size:
        raise LogGap(size)
    _refuse_other_bytes(placement, offset, body[: size - offset], now)
    fresh = body[size - offset :]
    if not fresh:
        return LogAck(size=size)
    if placement.attempt.state == AttemptState.ENDED and not takes_more(placement, now):
        raise Conflict("The attempt has ended; its log is closed.", code="log_closed")
    fresh = _within_cap(fresh, size)
    digest = hashlib.sha256(fresh).hexdigest()
    path = f"{log_folder(fence, rank)}/{size:012d}-{digest[:16]}"
    default_storage.save(path, ContentFile(fresh))
    reach("portal.log-stored")
    acknowledged = _commit(placement, path, fresh, digest, now)
    reach("portal.log-committed")
    return acknowledged


def log_folder(fence: int, rank: int) -> str:
    """Where all pieces of a rank's log are stored."""
    return f"logs/{fence % 1000:03d}/{fence}/{rank}"


def _refuse_other_bytes(placement: Placement, offset: int, again: bytes, now: datetime) -> None:
    """Bytes that are stored already must be the same: whole pieces by their digests, parts of the
    first and the last one as they are stored."""
    end = offset + len(again)
    pieces = list(placement.log_chunks.filter(offset__gte=offset, offset__lt=end)) if again else []
    if again and (not pieces or pieces[0].offset > offset):
        pieces[:0] = placement.log_chunks.filter(offset__lt=offset).order_by("-offset")[:1]
    for piece in pieces:
        begin = max(piece.offset, offset)
        part = again[begin - offset : piece.offset + piece.size - offset]
        if len(part) == piece.size:
            is_same = hashlib.sha256(part).hexdigest() == piece.digest
        else:
            try:
                with default_storage.open(piece.path) as stored:
                    stored.seek(begin - piece.offset)
                    is_same = stored.read(len(part)) == part
            except FileNotFoundError:
                # Lost with the store, as after a restore of older files: nothing to compare with.
                is_same = True
        if is_same:
            continue
        logger.error(
            "node %s sent other bytes for attempt %d, rank %d, from %d on than before",
            placement.node_id,
            placement.attempt_id,
            placement.rank,
            piece.offset,
        )
        record_node_event(placement.node, "log_conflict", now=now)
        raise Conflict(
            f"Bytes from {piece.offset} on were stored before and were others.", code="log_conflict"
        )


def _within_cap(fresh: bytes, size: int) -> bytes:
    """The part that fits below the cap; nothing left means the job goes on without its log."""
    room = load_conf().log_cap_mib * 1024 * 1024 - size
    if room <= 0:
        raise Conflict("The log has reached its cap; later output is not kept.", code="log_full")
    return fresh[:room]


class _EndedMeanwhile(Exception):
    """The rank has ended since it was read, and its attempt is not locked."""


def _commit(placement: Placement, path: str, fresh: bytes, digest: str, now: datetime) -> LogAck:
    try:
        return _append(placement, path, fresh, digest, now)
    except _EndedMeanwhile:
        placement.refresh_from_db(fields=["log_expected"])
        return _append(placement, path, fresh, digest, now)


@transaction.atomic
def _append(placement: Placement, path: str, fresh: bytes, digest: str, now: datetime) -> LogAck:
    """Under the attempt's lock where these may be the bytes that its end waits for: attempts are
    locked before their ranks."""
    is_over = placement.log_expected is not None
    attempt = locked_live_attempt(placement.attempt_id) if is_over else None
    lines = fresh.count(b"\n")
    size, first_line = placement.log_size, placement.log_lines + 1
    mine = Placement.objects.filter(pk=placement.pk, log_size=size, log_pruned_at__isnull=True)
    grown = mine.update(log_size=size + len(fresh), log_lines=placement.log_lines + lines)
    if not grown:
        placement.refresh_from_db()
        return LogAck(size=placement.log_size)
    LogChunk.objects.create(
        placement=placement,
        offset=size,
        size=len(fresh),
        first_line=first_line,
        lines=lines,
        digest=digest,
        path=path,
    )
    events.publish_on_commit(
        f"log:{placement.attempt_id}:{placement.rank}", "grown", size + len(fresh)
    )
    expected = Placement.objects.values_list("log_expected", flat=True).get(pk=placement.pk)
    if expected is not None and size + len(fresh) >= expected:
        if not is_over:
            raise _EndedMeanwhile
        if attempt is not None:
            lock_sets_over([attempt.job])
            placements = list(attempt.placements.select_related("node").order_by("rank"))
            settle(attempt, placements, now=now)
    return LogAck(size=size + len(fresh))


def finish_undrained(*, now: datetime) -> int:
    """Ended attempts whose log no longer arrives, or whose last checkpoint was never read, end all
    the same, and say so. What comes of a log later is still taken.
    """
    patience = timedelta(seconds=load_conf().log_drain_s)
    still_read = Placement.objects.filter(
        checkpoint_pending=True, attempt__released_at__gte=now - timedelta(seconds=UNREAD_S)
    ).values("attempt_id")
    # A long log has many thousands of pieces, and the newest is the last.
    pieces = LogChunk.objects.filter(placement=OuterRef("pk")).order_by("-offset")
    ranks = Placement.objects.alias(grown_at=Subquery(pieces.values("created_at")[:1]))
    just_grown = ranks.filter(
        ~CLOCK.older_than("grown_at", patience, now=now),
        grown_at__isnull=False,
        attempt=OuterRef("pk"),
    )
    too_long = CLOCK.older_than("released_at", max(patience, _LONGEST_DRAIN), now=now)
    waiting = (
        Attempt.objects.filter(
            CLOCK.older_than("released_at", patience, now=now),
            ~Exists(just_grown) | too_long,
            state__in=LIVE_ATTEMPT_STATES,
        )
        .exclude(pk__in=still_read)
        .values_list("pk", flat=True)
    )
    count = 0
    for attempt_id in waiting:
        with transaction.atomic():
            attempt = locked_live_attempt(attempt_id)
            if attempt is None:
                continue
            lock_sets_over([attempt.job])
            placements = list(attempt.placements.select_related("node").order_by("rank"))
            missing = sum(max(0, (p.log_expected or 0) - p.log_size) for p in placements)
            if missing:
                tally(Tally.GAP_RECORDED)
                transitions.record_event(
                    attempt.job,
                    "log_incomplete",
                    now=now,
                    attempt=attempt,
                    detail={"missing_bytes": missing},
                )
            if any(p.checkpoint_pending for p in placements):
                transitions.record_event(attempt.job, "checkpoint_unread", now=now, attempt=attempt)
            end_attempt(attempt, placements, now=now)
            count += 1
    return count
