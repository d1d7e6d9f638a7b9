"""What a program printed, as HTML that cannot do anything. Pure: standard library only.

An allow-list, not a terminal: colours and text styles (SGR) become spans with fixed classes, links
(OSC 8, http and https) become their text and an explicit link that names its host, a carriage
return or a move to the first column keeps the last state of the line. Every other control sequence
is dropped. What looks like markup is text. Time and memory are linear in the input; one line shows
at most 8 KiB.

The raw bytes stay as they are in the download.
"""

from portal.terminal.lines import (
    MAX_LINE_CHARS,
    MAX_WHOLE_CHARS,
    Rendered,
    RenderedLine,
    render_lines,
)
from portal.terminal.sgr import PLAIN, SgrState

__all__ = [
    "MAX_LINE_CHARS",
    "MAX_WHOLE_CHARS",
    "PLAIN",
    "Rendered",
    "RenderedLine",
    "SgrState",
    "render_lines",
]
