"""What people and scripts read: tables, JSON, and messages on standard error.

Names are chosen by others, so control and direction characters never reach the terminal. Log
output keeps its colours there and nothing else.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TextIO

from rich.console import Console, OverflowMethod
from rich.table import Table
from rich.text import Text

from portal.cli.exits import Failure
from scheduler.states import span_words

_PIPE_WIDTH = 500
# Between two columns.
_GAP = 2
# Nothing of so few signs is cut.
_SHORT = 11
_CENT = Decimal("0.01")
_DIRECTION = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_STATE_STYLES = {
    "succeeded": "green",
    "ready": "green",
    "running": "cyan",
    "starting": "cyan",
    "failed": "red",
    "timed out": "red",
    "lost": "red",
    "cancelled": "dim",
    "held": "yellow",
    "silent": "yellow",
    "unreachable": "yellow",
}
# Escape sequences: CSI, string sequences (OSC, DCS, APC, PM, SOS) up to their end, two-byte ones.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\`-~])", re.DOTALL
)
# The begin of one, as far as it has come.
_OPEN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z", re.DOTALL)
_SGR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_LONGEST_ESCAPE = 4096


def clean(text: object) -> str:
    """One line without control and direction characters."""
    kept = (
        char if char not in _DIRECTION and unicodedata.category(char) not in ("Cc", "Cs") else ""
        for char in str(text).replace("\n", " ").replace("\t", " ")
    )
    return "".join(kept)


def _put(text: str, stream: TextIO | None = None) -> None:
    stream = stream or sys.stdout
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
    stream.flush()


def print_json(value: object, *, is_compact: bool = False) -> None:
    """One JSON document on standard output, indented or on one line."""
    indent = None if is_compact else 2
    _put(json.dumps(value, indent=indent, ensure_ascii=not _is_utf8()))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Aligned columns; `empty` is said on standard error when there are no rows."""
    if not rows:
        say(empty)
        return
    cells = [[_cell(value) for value in row] for row in rows]
    columns = zip(*cells, strict=True)
    natural = [
        max(len(head), *(cell.cell_len for cell in column))
        for head, column in zip(heads, columns, strict=True)
    ]
    console = _console()
    widths = _fitted(natural, console.width - _GAP * (len(heads) - 1))
    # What does not fit even so goes on in the terminal's next line, rather than nowhere.
    console.width = max(console.width, sum(widths) + _GAP * (len(heads) - 1))
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for index, (head, width) in enumerate(zip(heads, widths, strict=True)):
        is_last = index == len(heads) - 1
        folds: OverflowMethod = "fold" if is_last else "ellipsis"
        table.add_column(head, width=width, no_wrap=not is_last, overflow=folds)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _fitted(natural: Sequence[int], room: int) -> list[int]:
    """Widths of columns that take no more than `room`, if need be: the widest lose first, and what
    is short, as numbers and states are, stays whole."""
    widths = list(natural)
    while sum(widths) > room and max(widths) > _SHORT:
        widths[widths.index(max(widths))] -= 1
    return widths


def print_line(*parts: object) -> None:
    """A line of text on standard output; leading blanks are kept."""
    _put(" ".join(clean(part) for part in parts))


def print_waiters(found: dict[str, Any]) -> None:
    """Who waits for a job or an array; nothing for nobody, and of a server that does not say."""
    told = found.get("waited_for_by") or {}
    words = [f"job {number}" for number in told.get("jobs", ())]
    words += [f"array {number}" for number in told.get("sets", ())]
    if words:
        print_line(f"Waited for by {', '.join(words)}{' and more' * told['has_more']}.")


def say(message: str) -> None:
    """A remark for people, on standard error, so that it never mixes with output."""
    _put(clean(message), sys.stderr)


def print_listed(
    rows: Sequence[Any],
    heads: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    empty: str,
    *,
    as_json: bool,
    is_cut: bool,
) -> None:
    """Rows of a list as a table or as JSON; where it was cut, standard error says so last."""
    if as_json:
        print_json(rows)
    else:
        print_table(heads, [cells(row) for row in rows], empty)
    if is_cut:
        say(f"There are more than these {len(rows)}: --limit shows more of them.")


def print_failure(failure: Failure, *, as_json: bool = False) -> None:
    """What happened, the fields at fault, what to do next, and the request id."""
    if as_json:
        shown = {
            "error": failure.what,
            "details": failure.details,
            "remedy": failure.remedy,
            "request_id": failure.request_id,
            "exit_code": failure.code,
        }
        _put(json.dumps(shown), sys.stderr)
        return
    lines = [f"trainyard: {failure.what}", *(f"  {detail}" for detail in failure.details)]
    if failure.remedy:
        lines.append(failure.remedy)
    if failure.request_id:
        lines.append(f"(request {failure.request_id})")
    for line in lines:
        indent = "  " if line.startswith("  ") else ""
        _put(indent + clean(line).strip(), sys.stderr)


def ago(text: str | None) -> str:
    """`3 min 5 s`, `2 h 5 min`, `4 d` since a time of the API; empty for None."""
    if not text:
        return ""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())
    return span(max(0, seconds))


def moment(text: str) -> str:
    """A time of the API as people read it, in UTC, to the minute."""
    return f"{text[:10]} {text[11:16]} UTC"


def expected_start(usual_s: int | None, latest_s: int | None) -> str:
    """When a waiting job starts, as its page says it; seconds since 1970, empty where unknown."""
    if usual_s is None or latest_s is None:
        return ""
    usual, latest = (moment(str(datetime.fromtimestamp(at, UTC))) for at in (usual_s, latest_s))
    if usual == latest:
        return f"Expected start: {latest} if jobs run to their time limits."
    return f"Expected start: {usual} if jobs end as usual, {latest} if they run to their limits."


def span(seconds: float) -> str:
    """A duration as pages say it: `2 h 5 min`."""
    return span_words(seconds)


def price(text: str, currency: str) -> str:
    """A price of a GPU-hour: all its decimals, two at least."""
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2} {currency}"


def money(text: str | None, currency: str) -> str:
    """An amount to the cent, as pages write it; what would vanish to its first two digits."""
    if not text:
        return "unknown"
    amount = Decimal(text)
    step = _CENT
    if amount and not amount.quantize(_CENT, ROUND_HALF_UP):
        step = Decimal(1).scaleb(amount.adjusted() - 1)
    return f"{amount.quantize(step, ROUND_HALF_UP):f} {currency}"


class LogWriter:
    """Log bytes to standard output: as they are into a pipe, made harmless on a terminal."""

    def __init__(self, *, is_raw: bool = False) -> None:
        self._is_plain = is_raw or not sys.stdout.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def write(self, raw: bytes) -> None:
        """Pass bytes on; an escape sequence cut by the end of `raw` waits for its rest."""
        if self._is_plain:
            sys.stdout.buffer.write(raw)
            sys.stdout.buffer.flush()
            return
        text = self._held + self._decoder.decode(raw)
        self._held = ""
        tail = _OPEN_ESCAPE.search(text)
        if tail and len(tail[0]) < _LONGEST_ESCAPE:
            self._held, text = tail[0], text[: tail.start()]
        sys.stdout.write(harmless(text))
        sys.stdout.flush()

    def end(self) -> None:
        """Nothing more comes of this log: what waited is text."""
        if not self._is_plain:
            sys.stdout.write(harmless(self._held + self._decoder.decode(b"", final=True)))
            sys.stdout.flush()
            self._held = ""

    def close(self) -> None:
        """Let nothing wait any longer."""
        self.end()


def harmless(text: str) -> str:
    """Colours stay; every other escape sequence and control character goes."""
    kept = _ESCAPES.sub(lambda match: match[0] if _SGR.fullmatch(match[0]) else "", text)
    without_stray = re.sub(r"\x1b(?!\[[0-9;:]{0,64}m)", "", kept)
    return _CONTROLS.sub("", without_stray)


def _cell(value: object) -> Text:
    text = clean("" if value is None else value)
    return Text(text, style=_STATE_STYLES.get(text, ""))


def _console() -> Console:
    is_terminal = sys.stdout.isatty()
    return Console(width=None if is_terminal else _PIPE_WIDTH, highlight=False, emoji=False)


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def job_cells(job: dict[str, Any]) -> list[object]:
    """A job as a row of JOB_HEADS."""
    since = job["ended_at"] or job["started_at"] or job["queued_at"]
    what = (job["wait"] or job["end"] or {}).get("sentence", "")
    return [
        job["id"],
        job["shown_state"],
        job["name"],
        job["project"],
        job["owner"],
        f"{job['nodes']}x{job['gpus_per_node']}" if job["nodes"] > 1 else job["gpus_per_node"],
        ago(since),
        what,
    ]


JOB_HEADS = ("JOB", "STATE", "NAME", "PROJECT", "OWNER", "GPUS", "SINCE", "WHY")


def share_words(place: dict[str, Any]) -> str:
    """Of a place in the queue, the share of its team and of its owner; the least goes first."""
    if place.get("is_overdue"):
        return "overdue"
    return " ".join(f"{share:.3g}" for share in (place.get("share") or [])[1:])
