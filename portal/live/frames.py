"""What a browser may send over the socket, read strictly."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

MAX_FRAME_BYTES = 8 * 1024
MAX_TOPICS = 50
MAX_TOPIC_CHARS = 120
MAX_LINE = 2**53


class FrameError(ValueError):
    """A frame that our own pages never send."""


@dataclass(slots=True)
class Wishes:
    """`subscribe` maps each topic to the last log line already seen; None: from now on."""

    subscribe: dict[str, int | None] = field(default_factory=dict)
    unsubscribe: list[str] = field(default_factory=list)


def read_frame(text: str) -> Wishes:
    """One frame: `{"subscribe": ["job:1", {"topic": "log:7:0", "after": 12}], "unsubscribe": []}`.

    Raises FrameError for anything else.
    """
    if len(text) > MAX_FRAME_BYTES or len(text.encode("utf-8", "replace")) > MAX_FRAME_BYTES:
        raise FrameError("too large")
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("not JSON") from None
    if not isinstance(frame, dict) or not set(frame) <= {"subscribe", "unsubscribe"}:
        raise FrameError("unknown fields")
    wishes = Wishes()
    for entry in _list(frame.get("subscribe", [])):
        after = None
        if isinstance(entry, dict) and set(entry) == {"topic", "after"}:
            entry, after = entry["topic"], entry["after"]
            if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < MAX_LINE:
                raise FrameError("after is not a line number")
        wishes.subscribe[_topic(entry)] = after
    wishes.unsubscribe = [_topic(entry) for entry in _list(frame.get("unsubscribe", []))]
    return wishes


def _list(value: object) -> list[object]:
    if not isinstance(value, list) or len(value) > MAX_TOPICS:
        raise FrameError("not a short list")
    return value


def _topic(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TOPIC_CHARS:
        raise FrameError("not a topic")
    return value
