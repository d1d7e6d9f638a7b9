"""Logs: I17 to I19. A program of the harness prints lines that tell whose they are."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator

from portal.torture.history import Evidence
from scheduler.agent.runtime.capture import CUT, LEFT_OUT
from scheduler.invariants.rows import Row
from scheduler.invariants.sent import pieces_touch

# What a supervisor writes between the lines where the disk is full or the cap is reached. Only
# the second tells of a gap; the first may stand in the middle of a line that goes on behind it.
_CUT = re.compile(r"\n" + re.escape(CUT) + r"[^\n]*\n")
_GAP = re.compile(r"\n\[trainyard\] \d+" + re.escape(LEFT_OUT) + r"\n")
_TOLD = ("jobevent", "attempt", "job", "nodeevent", "outboundmail", "delivery", "notification")


def line_of(job: int, fence: int, rank: int, number: int) -> str:
    """The text of a line as the harness's program prints it."""
    return f"L {job} {fence} {rank} {number}"


def logs_are_whole(evidence: Evidence) -> Iterator[str]:
    """I17: pieces touch, are what was sent, and together are what the program printed.

    A log that came in full is all of it; one with a gap, visibly, is its beginning and its end.
    What a node was told to be stored is there, whatever became of the rest.
    """
    chunks = evidence.grouped("logchunk", "placement_id")
    counts = {(said["fence"], said["rank"]): said["count"] for said in evidence.told("lines")}
    attempts = evidence.by_id("attempt")
    told = {
        (fence, rank): size
        for said in evidence.told("acknowledged")
        for fence, rank, size in said["sizes"]
    }
    for placement in evidence.rows("placement"):
        acknowledged = told.get((placement["attempt_id"], placement["rank"]), 0)
        lost = acknowledged - placement["log_size"]
        words = f"attempt {placement['attempt_id']}: {lost} bytes are gone that were acknowledged"
        yield words if lost > 0 else ""
        pieces = sorted(chunks.get(placement["id"], []), key=lambda row: row["offset"])
        place = f"rank {placement['rank']} of attempt {placement['attempt_id']}"
        yield _joined(place, placement, pieces, evidence)
        text = _text(pieces, evidence)
        owner = (attempts[placement["attempt_id"]]["job_id"], placement["attempt_id"])
        count = counts.get((placement["attempt_id"], placement["rank"]))
        count = count if _is_called_whole(placement) else None
        head, *tails = _GAP.split(_CUT.sub("", text))
        yield _sequence(place, _lines(head), (*owner, placement["rank"]), None if tails else count)
        for tail in tails:
            yield _tail(place, _lines(tail), (*owner, placement["rank"]), count)


def _is_called_whole(placement: Row) -> bool:
    """Whether its node saw the end and sent all; of a lost node what came is all there will be."""
    if placement["end_reason"] == "node_lost" or placement["log_expected"] is None:
        return False
    return bool(placement["log_size"] >= placement["log_expected"] > 0)


def _joined(place: str, placement: Row, pieces: list[Row], evidence: Evidence) -> str:
    for row in pieces:
        body = evidence.pieces.get(row["path"])
        if body is None or hashlib.sha256(body[: row["size"]]).hexdigest() != row["digest"]:
            return f"{place}: byte {row['offset']} on are not what was acknowledged"
    return pieces_touch(placement, pieces)


def _text(pieces: list[Row], evidence: Evidence) -> str:
    whole = b"".join(evidence.pieces.get(row["path"], b"")[: row["size"]] for row in pieces)
    return whole.decode("utf-8", "replace")


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("L ")]


def _sequence(place: str, lines: list[str], owner: tuple[int, int, int], count: int | None) -> str:
    """The lines are those of their owner from 1 on; `count`: how many there must be at least."""
    for number, line in enumerate(lines, 1):
        wanted = line_of(*owner, number)
        is_cut = number == len(lines) and count is None and wanted.startswith(line)
        if line != wanted and not is_cut:
            return f"{place}: line {number} is {line!r}"
    if count is not None and len(lines) < count:
        return f"{place}: {len(lines)} of {count} lines are there though it is called whole"
    return ""


def _tail(place: str, lines: list[str], owner: tuple[int, int, int], count: int | None) -> str:
    """Behind a gap whole lines follow, one after another, up to the last."""
    number = int(lines[0].rpartition(" ")[2]) if lines else count
    for line in lines:
        if line != line_of(*owner, number or 0):
            return f"{place}: behind its gap stands {line!r}, not line {number}"
        number = (number or 0) + 1
    if lines and count is not None and (number or 0) <= count:
        return f"{place}: behind its gap line {number} of {count} is not there"
    return ""


def logs_are_ones_own(evidence: Evidence) -> Iterator[str]:
    """I18: no line of one attempt stands in the log of another; no bytes belong to two."""
    attempts, placements = evidence.by_id("attempt"), evidence.by_id("placement")
    paths: dict[str, int] = {}
    for row in evidence.rows("logchunk"):
        fence = placements[row["placement_id"]]["attempt_id"]
        job = attempts[fence]["job_id"]
        body = evidence.pieces.get(row["path"], b"").decode("utf-8", "replace")
        # The first line of a piece may be the end of one that began before.
        foreign = [
            line
            for line in body.split("\n")[1:-1]
            if line.startswith("L ") and not line.startswith(f"L {job} {fence} ")
        ]
        twice = paths.setdefault(row["path"], row["placement_id"]) != row["placement_id"]
        words = f"{foreign[0]!r} stands in the log of attempt {fence}" if foreign else ""
        yield f"{row['path']} belongs to two" if twice else words


def secrets_stay_secret(evidence: Evidence) -> Iterator[str]:
    """I19: the secret that programs print is in no stored log, event, reason, finding, notice,
    mail or call: as it is, in base64 or in hex."""
    needle = evidence.rules.get("needle", "")
    if not needle:
        return
    plain = needle.encode()
    # Whatever stands before and behind it, the middle of its base64 is the same.
    forms = (needle, plain.hex(), *(b64encode(plain[at:])[:-8].decode() for at in range(3)))
    by_placement = evidence.grouped("logchunk", "placement_id")
    for placement, rows in by_placement.items():
        text = _text(sorted(rows, key=lambda row: row["offset"]), evidence)
        shown = any(form in text for form in forms)
        yield f"the log of placement {placement} shows a secret" if shown else ""
    for table in _TOLD:
        for row in evidence.rows(table):
            text = json.dumps(row, default=str)
            shown = any(form in text for form in forms)
            yield f"{table} {row['id']} shows a secret" if shown else ""
