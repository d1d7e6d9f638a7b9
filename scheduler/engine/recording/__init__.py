"""A decision as bytes: the snapshot and policy that went in, the plan that came out.

`coding.py` turns values of the engine into JSON and back, `recordings.py` keeps a whole decision,
so that it can be looked at elsewhere and decided again to the identical plan, byte for byte.
"""

from scheduler.engine.recording.coding import RecordingInvalid
from scheduler.engine.recording.recordings import (
    Recording,
    plan_bytes,
    read_recording,
    record,
    write_recording,
)

__all__ = [
    "Recording",
    "RecordingInvalid",
    "plan_bytes",
    "read_recording",
    "record",
    "write_recording",
]
