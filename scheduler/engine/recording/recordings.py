"""A snapshot, the policy and the plan they led to, in one file."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass

from scheduler.engine.cycle import plan_cycle
from scheduler.engine.plan import Plan
from scheduler.engine.policy import Policy
from scheduler.engine.recording.coding import RecordingInvalid, decode, encode
from scheduler.engine.snapshot import Snapshot

FORMAT = 1


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """`plan` is the plan as `plan_bytes` writes it."""

    snapshot: Snapshot
    policy: Policy
    plan: bytes

    def replay(self) -> bytes:
        """The plan that this version of the engine makes of it."""
        return plan_bytes(plan_cycle(self.snapshot, self.policy))


def record(snapshot: Snapshot, policy: Policy) -> Recording:
    """Decide, and keep what was decided on."""
    return Recording(snapshot, policy, plan_bytes(plan_cycle(snapshot, policy)))


def plan_bytes(plan: Plan) -> bytes:
    """All of a plan as JSON, one line for each start, stop, wait and reservation, in their order.

    Equal plans give equal bytes. Infinite and unknown numbers are null.
    """
    lines: list[object] = [
        {"start": start.job, "placements": _plain(start.placements)} for start in plan.starts
    ]
    lines += [_plain(stop) for stop in plan.stops]
    lines += [
        {"wait": wait.job, "reason": wait.reason, "facts": dict(wait.facts)}
        for wait in plan.iter_waits()
    ]
    lines += [_plain(reservation) for reservation in plan.reservations]
    lines += [_plain(standing) for _, standing in sorted(plan.standings.items())]
    return b"\n".join(json.dumps(line, sort_keys=True).encode() for line in lines)


def write_recording(recording: Recording) -> bytes:
    """As bytes that any later version can read; equal recordings give equal bytes."""
    whole = {
        "format": FORMAT,
        "snapshot": encode(recording.snapshot),
        "policy": encode(recording.policy),
        "plan": recording.plan.decode(),
    }
    return zlib.compress(json.dumps(whole, sort_keys=True).encode(), 6)


def read_recording(raw: bytes) -> Recording:
    """What `write_recording` wrote. Raises RecordingInvalid."""
    try:
        whole = json.loads(zlib.decompress(raw))
        known = whole["format"]
    except (zlib.error, ValueError, KeyError, TypeError):
        raise RecordingInvalid("these bytes are no recording of a snapshot") from None
    if known != FORMAT:
        raise RecordingInvalid(f"the recording has format {known}; this version reads {FORMAT}")
    snapshot, policy = decode(whole["snapshot"]), decode(whole["policy"])
    if not (isinstance(snapshot, Snapshot) and isinstance(policy, Policy)):
        raise RecordingInvalid("the recording lacks a snapshot or a policy")
    return Recording(snapshot, policy, str(whole["plan"]).encode())


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value)  # type: ignore[call-overload]
