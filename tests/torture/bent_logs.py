"""Logs that are not what was printed (I17), and secrets that are shown (I19)."""

from __future__ import annotations

import hashlib
from base64 import b64encode

from scheduler.agent.runtime.capture import CUT, LEFT_OUT
from tests.torture.stories import NEEDLE, log_bytes

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


def secret_shown(story):
    rewrite(story, "b", 2, log_bytes(1, 12, 0, 3) + f"S {NEEDLE}\n".encode())


def secret_shown_in_base64(story):
    shown = b64encode(f"to {NEEDLE} and on".encode())
    rewrite(story, "b", 2, log_bytes(1, 12, 0, 3) + b"S " + shown + b"\n")


def secret_in_a_finding(story):
    story.row("attempt", 11)["triage"] = {"evidence": [NEEDLE.encode().hex()]}


def secret_in_event(story):
    story.row("jobevent", 7)["detail"] = {"words": NEEDLE}


def secret_in_a_notice(story):
    story.row("notification", 1)["text"] = f"it printed {NEEDLE}"


LOGS = [
    log_hole,
    log_bytes_changed,
    log_byte_lost,
    log_line_lost,
    log_line_lost_at_a_cut,
    log_end_lost_behind_a_gap,
    log_end_gone_that_was_acknowledged,
]
SECRETS = [
    *(secret_shown, secret_shown_in_base64, secret_in_event, secret_in_a_finding),
    secret_in_a_notice,
]
