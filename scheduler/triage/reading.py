"""Which signatures the last lines of a log hold, the one nearest to the root first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.states import FailureClass
from scheduler.triage.model import LogTail
from scheduler.triage.programs import TABLE
from scheduler.triage.signatures import Signature
from scheduler.triage.text import MAX_TAIL_BYTES, Line, read_tail

# An exception no signature of the table explains.
UNCAUGHT = Signature(
    "uncaught_exception",
    FailureClass.USER_CODE,
    60,
    "Python, on the last line of a traceback",
    "The program ended with an exception. The lines above it in the log say where.",
    (),
)
# Signatures of set-up may be passing remarks; before a traceback began they are not its cause.
_SETUP_RANKS = range(40, 50)
# Words of lines that report what the program has coped with.
_COPED = (
    "warning",
    "retrying",
    "will retry",
    "recovered",
    "falling back",
    "fallback",
    "skipping",
    "ignoring",
    "ignored",
)
_PREFIX = re.compile(r"(?:\[[^\]\s]{1,40}\]:?|\d{1,5}:) ?")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception)(?::|$)")
_PROGRESS = re.compile(r"\b(?:step|epoch|iter|iteration)\b[ :=#\[]{0,3}\d", re.IGNORECASE)
_FRAME = re.compile(r'\s*File "([^"]{1,400})", line \d')
# Paths of frames that are not the program's own.
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen")
# Exceptions that mean a mistake in a program, whoever's frame is the innermost: a library is called
# wrongly. Any other one is the program's own only if the program itself raised it; what a library
# raises on its own account may as well be a store that is busy or a fabric that is not ready.
_MISTAKES = frozenset(
    "TypeError AttributeError NameError UnboundLocalError KeyError IndexError ZeroDivisionError "
    "NotImplementedError RecursionError SyntaxError IndentationError TabError".split()
)
# Exceptions that only carry the news of another rank or process.
_CARRIERS = (
    "childfailederror",
    "distbackenderror",
    "distnetworkerror",
    "diststoreerror",
    "processraisedexception",
    "processexitedexception",
    "calledprocesserror",
    "nccl",
    "gloo",
    "timeouterror",
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A signature and the line that holds it."""

    signature: Signature
    line: Line


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A line that is no quoted source, and the frame that was named last before it, if any."""

    line: Line
    frame: str


def words_in(low: str, signature: Signature) -> bool:
    """Whether a text in small letters holds all words of one alternative."""
    return any(all(word in low for word in words) for words in signature.any_of)


def read_hits(tails: Sequence[LogTail], culprit: int) -> list[Hit]:
    """All hits of all ranks, nearest to the root first; at MAX_TAIL_BYTES in all.

    What was printed after the last line of progress counts first; only if it says nothing is the
    rest of the tail asked.
    """
    room, recent, older = MAX_TAIL_BYTES, [], []
    for tail in sorted(tails, key=lambda one: (one.rank != culprit, one.rank)):
        if room <= 0:
            break
        room -= len(tail.raw)
        lines = _spoken(read_tail(tail))
        last = max(
            (i for i, one in enumerate(lines) if _PROGRESS.search(one.line.text)), default=-1
        )
        recent += _hits(lines[last + 1 :])
        older += _hits(lines[: last + 1])
    hits = recent or [hit for hit in older if hit.signature is not UNCAUGHT]
    return sorted(hits, key=lambda hit: hit.signature.rank)


def _spoken(lines: list[Line]) -> list[_Spoken]:
    """Without the source text that tracebacks quote: a frame's line and the code below it.

    Ranks that share one log write in turns, so the last frame is kept for each prefix.
    """
    kept, quotes = [], False
    frames: dict[str, str] = {}
    for line in lines:
        bare = _bare(line.text)
        prefix = line.text[: len(line.text) - len(bare)]
        if bare.lstrip().startswith('File "'):
            quotes = True
            frame = _FRAME.match(bare)
            frames[prefix] = frame[1] if frame else ""
        elif quotes and bare.startswith("    "):
            continue
        else:
            quotes = False
            kept.append(_Spoken(line, frames.get(prefix, "")))
    return kept


def _hits(spoken: list[_Spoken]) -> list[Hit]:
    whole = "\n".join(one.line.low for one in spoken)
    likely = [one for one in TABLE if words_in(whole, one)]
    begun, hits = None, []
    for index, one in enumerate(spoken):
        line = one.line
        if begun is None and "traceback (most recent call last)" in line.low:
            begun = index
        # The last try of a package installer says that it tries again, and does not.
        if any(word in line.low for word in _COPED) and "total=0" not in line.low:
            continue
        found = next((entry for entry in likely if words_in(line.low, entry)), None)
        if found is None and _is_uncaught(line, one.frame):
            found = UNCAUGHT
        if found is not None:
            hits.append((index, Hit(found, line)))
    return [
        hit
        for index, hit in hits
        if begun is None or index >= begun or hit.signature.rank not in _SETUP_RANKS
    ]


def _bare(text: str) -> str:
    """Without the rank that launchers write before a line."""
    for _ in range(2):
        text = _PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text
    return text


def _is_uncaught(line: Line, frame: str) -> bool:
    """Whether it ends a traceback that speaks of the program itself."""
    if any(word in line.low for word in _CARRIERS):
        return False
    found = _EXCEPTION.match(_bare(line.text).strip())
    if found is None:
        return False
    if found[0].rstrip(":") in _MISTAKES:
        return True
    return bool(frame) and not any(part in frame for part in _LIBRARIES)
