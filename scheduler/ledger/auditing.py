"""Whether stored segments are a partition: checked as a stream, before anything is priced."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import groupby

from scheduler.ledger.findings import Finding, Trouble
from scheduler.ledger.segments import ALLOCATED, IDLE, Bucket, Segment


@dataclass(slots=True)
class Audit:
    """What a stream of segments gave: seconds by bucket, and the findings.

    `span` is the devices' time in service by the two ends of their streams, less OUT: counted apart
    from the buckets, so that an overlap shows as idle time below nothing and is never clamped.
    """

    start_s: int
    end_s: int
    seconds: dict[Bucket, int] = field(default_factory=lambda: dict.fromkeys(Bucket, 0))
    span: int = 0
    findings: list[Finding] = field(default_factory=list)


def audit(
    segments: Iterable[Segment], start_s: int, end_s: int, *, known_before: Container[str] = ()
) -> Audit:
    """Check segments ordered by device and start against a window; constant memory.

    Finds overlaps and gaps between neighbours, and devices whose allocated and unallocated seconds
    exceed their time in service. `known_before` are devices that have segments before the window:
    theirs must reach into it.
    """
    result = Audit(start_s, end_s)
    for device, stream in groupby(segments, key=lambda segment: segment.device):
        _check(device, stream, result, reaches_back=device in known_before)
    return result


def _check(device: str, stream: Iterable[Segment], result: Audit, *, reaches_back: bool) -> None:
    own = dict.fromkeys(Bucket, 0)
    begins: int | None = result.start_s if reaches_back else None
    last: int | None = begins
    for place, segment in enumerate(stream):
        own[segment.bucket] += segment.seconds(result.start_s, result.end_s)
        if place == 0 and (begins is None or segment.start_s <= begins):
            begins = segment.start_s
        elif last is None or segment.start_s < last:
            result.findings.append(_overlap(device, segment.start_s))
        elif segment.start_s > last:
            result.findings.append(_gap(device, last, segment.start_s))
        last = segment.end_s
    ends = result.end_s if last is None else min(last, result.end_s)
    if begins is None:
        return
    span = max(0, ends - max(begins, result.start_s)) - own[Bucket.OUT]
    held = sum(own[bucket] for bucket in own if bucket not in IDLE and bucket is not Bucket.OUT)
    if span - held < 0:
        result.findings.append(_negative(device, own, held, span))
    result.span += span
    for bucket, seconds in own.items():
        result.seconds[bucket] += seconds


def _overlap(device: str, start_s: int) -> Finding:
    return Finding(
        Trouble.OVERLAP,
        f"device {device}",
        f"its segment from {start_s} begins before the one before it ends; look for two "
        "schedulers at work then",
    )


def _gap(device: str, last: int, start_s: int) -> Finding:
    return Finding(
        Trouble.GAP,
        f"device {device}",
        f"nothing is known between {last} and {start_s}; restore the rows from a backup",
    )


def _negative(device: str, own: dict[Bucket, int], held: int, span: int) -> Finding:
    allocated = sum(own[bucket] for bucket in ALLOCATED)
    return Finding(
        Trouble.NEGATIVE_IDLE,
        f"device {device}",
        f"{allocated} s allocated and {held - allocated} s out of use in {span} s of service; its "
        "segments are wrong, and nothing is priced before they are mended",
    )
