"""Output files of jobs to storage: listed, sent part by part, whole once the digest agrees."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Count, Sum
from django.utils import timezone

from scheduler import events
from scheduler.conf import load_conf
from scheduler.models import Job, Node, OutputFile, Placement
from scheduler.services.errors import Conflict, Invalid, LogGap, NotFound
from scheduler.services.kept.folders import clear_folder
from scheduler.wire.messages import LogAck
from scheduler.wire.outputs import (
    MAX_OUTPUT_NAME,
    MAX_OUTPUTS,
    OUTPUT_PART,
    OutputList,
    OutputPlan,
    OutputWish,
    problem_of_name,
)

logger = logging.getLogger(__name__)

_MIB = 1024 * 1024
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHANGED = "it was written to while it was handed over; write it before the program ends"


def take_output_list(
    *, node: Node, fence: int, rank: int, found: OutputList, now: datetime | None = None
) -> OutputPlan:
    """Note what a rank left in its output folder; answers with the bytes that are still wanted.

    The job's newest attempt decides what a name means: an older one's late list changes nothing.
    Files that an earlier attempt left elsewhere stay. What goes over a cap is noted with the reason
    instead of its bytes. Raises NotFound, or Conflict (`outputs_outdated`) for an older attempt.
    """
    placement = _placement_of(node, fence, rank)
    job_id = placement.attempt.job_id
    with transaction.atomic():
        # One list of a job at a time: the caps count what is there.
        Job.objects.select_for_update().get(pk=job_id)
        rows = OutputFile.objects.filter(job=job_id)
        mine = {row.name: row for row in rows.filter(rank=rank).select_related("placement")}
        if any(row.placement.attempt_id > fence for row in mine.values()):
            raise Conflict("A later attempt has listed its files.", code="outputs_outdated")
        others = rows.exclude(rank=rank).filter(problem="")
        used = others.aggregate(bytes=Sum("size", default=0), files=Count("pk"))
        listed = {one.name for one in found.entries} | {one.name for one in found.refused}
        # Of this rank, what its earlier attempts left under other names stays.
        left = [row for row in mine.values() if row.name not in listed and not row.problem]
        size = used["bytes"] + sum(row.size for row in left)
        told = list(_judged(found, size, used["files"] + len(left)))
        known = {one.name for one in told if _is_same(mine.get(one.name), one)}
        stale = [mine[one.name] for one in told if one.name in mine and one.name not in known]
        OutputFile.objects.filter(pk__in=[row.pk for row in stale]).delete()
        fresh = [one for one in told if one.name not in known]
        for one in fresh:
            one.job_id, one.placement, one.rank = job_id, placement, rank
            one.told_at = now or timezone.now()
            if one.size == 0 and not one.problem:
                one.completed_at = one.told_at
        OutputFile.objects.bulk_create(fresh)
        transaction.on_commit(lambda: _drop_bytes(stale))
        events.publish_on_commit(f"job:{job_id}", "outputs")
    wanted = OutputFile.objects.filter(
        job=job_id, rank=rank, problem="", completed_at=None, name__in=[one.name for one in told]
    )
    return OutputPlan(tuple(OutputWish(row.pk, row.name, row.stored) for row in wanted))


def append_output(
    *,
    node: Node,
    fence: int,
    rank: int,
    number: int,
    offset: int,
    part: bytes,
    now: datetime | None = None,
) -> LogAck:
    """Store a part of a wanted file; answers with how many of its bytes are durable.

    Parts come in order, all but the last OUTPUT_PART bytes long; a repeated one changes nothing.
    With the last one the whole is read back: a file without the digest it was listed with is
    dropped, with the reason, and one of which a part is gone begins anew. Raises NotFound, LogGap,
    Invalid or Conflict (`output_changed`).
    """
    placement = _placement_of(node, fence, rank)
    row = OutputFile.objects.filter(pk=number, job=placement.attempt.job_id, rank=rank).first()
    if row is None or row.problem or row.pruned_at:
        raise NotFound("No such file is wanted.")
    if offset > row.stored:
        raise LogGap(row.stored)
    if offset < row.stored:
        return LogAck(row.stored)
    if row.completed_at is not None:
        return LogAck(row.size)
    if len(part) != min(OUTPUT_PART, row.size - offset):
        raise Invalid(
            f"Send {min(OUTPUT_PART, row.size - offset)} bytes from byte {offset} on.",
            field="offset",
        )
    default_storage.save(row.part_path(offset), ContentFile(part))
    size = offset + len(part)
    if size == row.size:
        _conclude(row, now or timezone.now())
    else:
        OutputFile.objects.filter(pk=row.pk, stored=offset).update(stored=size)
    return LogAck(size)


def read_parts(row: OutputFile, offset: int = 0) -> Iterator[bytes]:
    """The stored bytes from `offset` on, part by part; raises OSError for a part that is gone."""
    begin = offset - offset % OUTPUT_PART
    for at in range(begin, row.size, OUTPUT_PART):
        with default_storage.open(row.part_path(at)) as file:
            yield file.read()[max(0, offset - at) :]


def delete_bytes(row: OutputFile) -> None:
    """Delete what is stored of this file; raises OSError for what cannot be deleted."""
    # One part more than is noted: a part is stored before its row knows of it.
    for at in range(0, min(row.size, row.stored + OUTPUT_PART), OUTPUT_PART):
        with suppress(FileNotFoundError):
            default_storage.delete(row.part_path(at))
    # And what no row tells of: a part that was stored twice.
    clear_folder(row.folder)


def _drop_bytes(rows: Iterable[OutputFile]) -> None:
    """The same for rows that say something else by now: what cannot be deleted stays behind."""
    for row in rows:
        try:
            delete_bytes(row)
        except OSError as problem:
            logger.warning("bytes of output %s could not be deleted: %s", row.name, problem)


def _conclude(row: OutputFile, now: datetime) -> None:
    digest = hashlib.sha256()
    try:
        for piece in read_parts(row):
            digest.update(piece)
    except FileNotFoundError as problem:
        # Lost with the store, as after a restore of older files; its node has the file yet.
        logger.warning("output %s of job %d is asked for anew: %s", row.name, row.job_id, problem)
        row.stored = row.size
        _drop_bytes([row])
        OutputFile.objects.filter(pk=row.pk).update(stored=0)
        raise LogGap(0) from None
    if digest.hexdigest() == row.digest:
        OutputFile.objects.filter(pk=row.pk).update(stored=row.size, completed_at=now)
        events.publish_on_commit(f"job:{row.job_id}", "outputs")
        return
    row.stored = row.size
    _drop_bytes([row])
    OutputFile.objects.filter(pk=row.pk).update(stored=0, problem=_CHANGED)
    raise Conflict(f"{row.name}: {_CHANGED}.", code="output_changed")


def _placement_of(node: Node, fence: int, rank: int) -> Placement:
    found = (
        Placement.objects.select_related("attempt")
        .filter(node=node, attempt_id=fence, rank=rank)
        .first()
    )
    if found is None:
        raise NotFound("This node has no such attempt.")
    return found


def _judged(found: OutputList, bytes_used: int, files_used: int) -> Iterator[OutputFile]:
    """Rows to be, in the order of the list, each name once; what is not kept carries its reason."""
    conf, seen = load_conf(), set()
    for entry in found.entries[:MAX_OUTPUTS]:
        if entry.name in seen or problem_of_name(entry.name):
            continue  # no agent of ours lists such a name
        seen.add(entry.name)
        problem = ""
        if entry.size < 0 or not _DIGEST.fullmatch(entry.digest):
            problem = "the node told no proper size and digest"
        elif entry.size > conf.output_file_mib * _MIB:
            problem = f"it is larger than {conf.output_file_mib} MiB, the most a file may have"
        elif bytes_used + entry.size > conf.output_job_mib * _MIB:
            problem = f"the job's files would be more than {conf.output_job_mib} MiB"
        elif files_used >= conf.output_count:
            problem = f"the job has more than {conf.output_count} files; pack them"
        else:
            bytes_used, files_used = bytes_used + entry.size, files_used + 1
        size = 0 if problem else entry.size
        digest = "" if problem else entry.digest
        yield OutputFile(name=entry.name, size=size, digest=digest, problem=problem)
    for refusal in found.refused[:MAX_OUTPUTS]:
        name = refusal.name[:MAX_OUTPUT_NAME]
        if name and name.isprintable() and name not in seen:
            seen.add(name)
            yield OutputFile(name=name, problem=refusal.problem[:255] or "the node refused it")


def _is_same(row: OutputFile | None, told: OutputFile) -> bool:
    """Whether a row says the same already, so that its bytes can stay."""
    if row is None or row.pruned_at is not None:
        return False
    return (row.size, row.digest, row.problem) == (told.size, told.digest, told.problem)
