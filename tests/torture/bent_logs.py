"""Logs that are not what was printed, for I17."""

from __future__ import annotations

import hashlib

from scheduler.agent.runtime.capture import CUT, LEFT_OUT
from tests.torture.stories import log_bytes

CUT_LINE = f"\n{CUT}No space left on device. The program goes on.\n".encode()


def gap_line(count):
    return f"\n[trainyard] {count}{LEFT_OUT}\n".encode()


def rewrite(story, path, pk, body):
    """Other bytes, with a digest that fits."""
    story.pieces[path] = body
    digest = hashlib.sha256(body).hexdigest()
    story.row("logchunk", pk).update(size=len(body), digest=digest)
    placement = story.row("logchunk", pk)["placement_id"]
    story.row("placement", placement).update(log_size=len(body), log_expected=len(body))


def log_hole(story):
    story.row("logchunk", 2)["offset"] = 1


def log_bytes_changed(story):
    story.pieces["b"] = b"x" + story.pieces["b"][1:]


def log_byte_lost(story):
    rewrite(story, "b", 2, log_bytes(1, 12, 0, 3)[:10] + log_bytes(1, 12, 0, 3)[11:])


def log_line_lost(story):
    rewrite(story, "b", 2, log_bytes(1, 12, 0, 2))


def log_line_lost_at_a_cut(story):
    """The note alone excuses nothing: only the one that counts what is left out does."""
    rewrite(story, "b", 2, log_bytes(1, 12, 0, 2) + CUT_LINE)


def log_end_lost_behind_a_gap(story):
    lines = log_bytes(1, 12, 0, 2).splitlines(keepends=True)
    rewrite(story, "b", 2, lines[0][:4] + CUT_LINE + gap_line(9) + lines[1])


def log_end_gone_that_was_acknowledged(story):
    """Less than the program printed is no break by itself: its node may have been lost."""
    rewrite(story, "b", 2, log_bytes(1, 12, 0, 2))
    story.row("placement", 22)["log_expected"] = 33


LOGS = [
    log_hole,
    log_bytes_changed,
    log_byte_lost,
    log_line_lost,
    log_line_lost_at_a_cut,
    log_end_lost_behind_a_gap,
    log_end_gone_that_was_acknowledged,
]
