"""What is said on a node: that something changed, that it must end."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from scheduler.agent.runtime.records import StopRecord

NOTICE_FILE = "preempt-notice.json"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def wake_agent(address: str, fence: int) -> None:
    """A hint to the socket at `address`; a lost one costs the agent at most a second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hint:
        hint.setblocking(False)
        with suppress(OSError):
            hint.sendto(str(fence).encode(), address)


def unreached(silence_s: float) -> str:
    """Why a program ends that the server may have given up."""
    return f"no contact with the server for {silence_s:.0f} s"


def leave_notice(folder: str, order: StopRecord) -> None:
    """For programs that cannot trap signals: a file in their own folder says what is coming.

    Raises OSError. What the program put in its way is no file to write to.
    """
    now = time.time()
    notice = {
        "reason": order.reason.value,
        "grace_s": order.grace_s,
        "at": now,
        "deadline": now + order.grace_s,
    }
    fresh = Path(folder, f".{NOTICE_FILE}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    target = os.open(fresh, _NEW, 0o644)
    with open(target, "w") as stream:
        json.dump(notice, stream)
    os.rename(fresh, Path(folder, NOTICE_FILE))
