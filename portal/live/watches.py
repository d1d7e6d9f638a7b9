"""One topic of one socket, and how often it may be told of."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from portal.live.log_stream import LogReader

COALESCE_S = 0.25
COALESCE_LIST_S = 1.0
COALESCE_LOG_S = 0.1
LIST_KINDS = frozenset({"queue", "nodes", "project"})


@dataclass(slots=True)
class Watch:
    """`pending`: kinds of hints to tell, each with its last `ref`."""

    topic: str
    seq: int = 0
    sent_at: float = 0.0
    pending: dict[str, str | int] = field(default_factory=dict)
    flushing: asyncio.Task[None] | None = None
    reader: LogReader | None = None

    @property
    def pause_s(self) -> float:
        if self.reader is not None:
            return COALESCE_LOG_S
        return COALESCE_LIST_S if self.topic.partition(":")[0] in LIST_KINDS else COALESCE_S
