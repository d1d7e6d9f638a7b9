"""Log bytes to lines: collapse, cut, escape."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import NamedTuple
from urllib.parse import urlsplit

from portal.terminal.sgr import PLAIN, SgrState, apply_sgr

MAX_LINE_CHARS = 8 * 1024
MAX_WHOLE_CHARS = 1024 * 1024
_BYTES_A_CHAR = 4
_MAX_STATE_BYTES = 256 * 1024
_MAX_URL_CHARS = 2048
_CR, _G = ord("\r"), ord("G")
# Back to the first column, as programs write it; the search must know the same.
_RETURNS = (b"\r", b"\x1b[G", b"\x1b[0G", b"\x1b[1G")


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """One line: its number in the log, safe HTML, the same as text, and the bytes not shown."""

    number: int
    html: str
    text: str
    cut_bytes: int = 0


class Rendered(NamedTuple):
    """Lines, and the state with which the next window begins."""

    lines: list[RenderedLine]
    carry: SgrState


def render_lines(
    raw: bytes, first_line: int, carry: SgrState = PLAIN, *, most_chars: int = MAX_LINE_CHARS
) -> Rendered:
    """Render a window of a log that begins at the start of line `first_line`.

    Lines end with a line feed; a last line without one is rendered too. A line shows at most
    `most_chars`. Never raises.
    """
    lines: list[RenderedLine] = []
    begin = 0
    while begin < len(raw):
        end = raw.find(b"\n", begin)
        end = len(raw) if end < 0 else end
        line, carry = _render_line(raw, begin, end, first_line + len(lines), carry, most_chars)
        lines.append(line)
        begin = end + 1
    return Rendered(lines, carry)


_CONTROL = re.compile(
    r"\x1b\[(?P<csi>[0-?]*[ -/]*[@-~]?)"
    r"|\x1b\](?P<osc>[^\x07\x1b]*)(?P<osc_end>\x07|\x1b\\)?"
    r"|\x1b[PX^_](?P<string>[^\x1b]*)(?P<string_end>\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_SGR = re.compile(r"[0-9:;]*m\Z")
_SGR_BYTES = re.compile(rb"\x1b\[([0-9:;]*)m")


def _render_line(
    raw: bytes, begin: int, end: int, number: int, state: SgrState, most_chars: int
) -> tuple[RenderedLine, SgrState]:
    """The last state of the line `raw[begin:end]`, cut where it is too long. Copies no more."""
    stop = _before_returns(raw, begin, end)
    start = _after_returns(raw, begin, stop)
    cut = min(stop, start + _BYTES_A_CHAR * most_chars)
    state = _state_after(raw[max(begin, start - _MAX_STATE_BYTES) : start], state)
    page = _Line(state, most_chars)
    page.read(raw[start:cut].decode("utf-8", "replace"))
    cut_bytes = stop - cut + page.cut_bytes
    state = _state_after(raw[max(cut, stop - _MAX_STATE_BYTES) : stop], page.state)
    html, text = page.finish(cut_bytes)
    return RenderedLine(number, html, text, cut_bytes), state


def _before_returns(raw: bytes, begin: int, stop: int) -> int:
    """Where the returns begin at which `raw[begin:stop]` ends: nothing came after them."""
    while stop > begin and raw[stop - 1] in (_CR, _G):
        length = next((len(one) for one in _RETURNS if raw.endswith(one, begin, stop)), 0)
        if not length:
            break
        stop -= length
    return stop


def _after_returns(raw: bytes, begin: int, stop: int) -> int:
    """Where the last state of the line `raw[begin:stop]` begins."""
    found = ((raw.rfind(one, begin, stop), len(one)) for one in _RETURNS)
    return max((at + length for at, length in found if at >= 0), default=begin)


def _state_after(skipped: bytes, state: SgrState) -> SgrState:
    """The state after bytes that are not shown: their colours still hold for what follows."""
    for match in _SGR_BYTES.finditer(skipped):
        state = apply_sgr(match[1].decode("ascii"), state)
    return state


class _Line:
    """Collects the runs of one line."""

    def __init__(self, state: SgrState, most_chars: int) -> None:
        self.state = state
        self.cut_bytes = 0
        self._link = ""
        self._room = most_chars
        self._html: list[str] = []
        self._text: list[str] = []
        self._run: list[str] = []
        self._run_css = state.css()

    def read(self, text: str) -> None:
        """Take the text of a line apart into runs and control sequences."""
        at = 0
        for match in _CONTROL.finditer(text):
            self._say(text[at : match.start()])
            at = match.end()
            self._obey(match)
        self._say(text[at:])

    def finish(self, cut_bytes: int) -> tuple[str, str]:
        """Close what is open; returns HTML and text."""
        self._close_link()
        self._close_run()
        if cut_bytes:
            note = f"… {_size(cut_bytes)} more on this line, in the download"
            self._html.append(f'<span class="t-cut">{note}</span>')
        return "".join(self._html), "".join(self._text)

    def _obey(self, match: re.Match[str]) -> None:
        kind = match.lastgroup
        csi = match["csi"]
        if csi is not None:
            if _SGR.match(csi):
                self.state = apply_sgr(csi[:-1], self.state)
        elif kind in {"osc", "string"}:
            # Never ended: a program must not hide the rest of its line, so it is text.
            self._say(_CONTROL.sub("", match[kind]))
        elif kind == "osc_end" and match["osc"].startswith("8;"):
            self._close_link()
            self._link = _safe_url(match["osc"].split(";", 2)[-1])

    def _say(self, text: str) -> None:
        if not text:
            return
        kept = text[: self._room]
        self.cut_bytes += len(text[self._room :].encode("utf-8", "replace"))
        self._room -= len(kept)
        if not kept:
            return
        css = self.state.css()
        if css != self._run_css:
            self._close_run()
            self._run_css = css
        self._run.append(kept)
        self._text.append(kept)

    def _close_run(self) -> None:
        if not self._run:
            return
        text = escape("".join(self._run))
        self._html.append(f'<span class="{self._run_css}">{text}</span>' if self._run_css else text)
        self._run = []

    def _close_link(self) -> None:
        if not self._link:
            return
        self._close_run()
        host = escape(urlsplit(self._link).hostname or "")
        self._html.append(
            f' <a class="t-link" href="{escape(self._link)}" target="_blank" '
            f'rel="noopener noreferrer nofollow">open link</a>'
            f' <span class="t-host">({host})</span>'
        )
        self._link = ""


_URL_CHARS = re.compile(r"https?://[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+\Z")


def _safe_url(url: str) -> str:
    """`url` where it is a plain http or https address that says its true host, else nothing."""
    if len(url) > _MAX_URL_CHARS or not _URL_CHARS.match(url):
        return ""
    try:
        parts = urlsplit(url)
        well_formed = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return ""
    # A user part makes `https://known.example@other.example` look like the first one.
    return url if well_formed and "@" not in parts.netloc else ""


def _size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"
