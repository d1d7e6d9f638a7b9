"""Select Graphic Rendition: colours and text styles, as fixed classes of log.css."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

_MAX_PARAMS = 64


@dataclass(frozen=True, slots=True)
class SgrState:
    """Colours (0-15, None is the theme's own) and styles that hold until something changes them."""

    fg: int | None = None
    bg: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    strike: bool = False
    inverse: bool = False

    def css(self) -> str:
        """The fixed classes of log.css, separated by spaces; empty for plain text."""
        fg, bg = (self.bg, self.fg) if self.inverse else (self.fg, self.bg)
        words = [f"t-fg{fg}"] if fg is not None else []
        if bg is not None:
            words.append(f"t-bg{bg}")
        elif self.inverse:
            words.append("t-inverse")
        styles = ("bold", "dim", "italic", "underline", "strike")
        return " ".join(words + [f"t-{style}" for style in styles if getattr(self, style)])


PLAIN = SgrState()


_SWITCHES: dict[int, dict[str, bool]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"inverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"inverse": False},
    29: {"strike": False},
}


@lru_cache(maxsize=4096)
def apply_sgr(params: str, state: SgrState) -> SgrState:
    """The state after `ESC [ params m`; numbers out of range and unknown ones change nothing."""
    fields = params.split(";", _MAX_PARAMS)[:_MAX_PARAMS]
    at = 0
    while at < len(fields):
        numbers = [int(part) if part and len(part) < 5 else 0 for part in fields[at].split(":")]
        code = numbers[0]
        at += 1
        if code in {38, 48, 58}:
            if len(numbers) == 1:
                rest = [int(part) if part.isdigit() else 0 for part in fields[at : at + 4]]
                numbers += rest
                at += {5: 2, 2: 4}.get(rest[0] if rest else 0, 1)
            elif numbers[1] == 2 and len(numbers) > 5:
                del numbers[2]
            state = _colour(code, numbers[1:], state)
        elif code == 0:
            state = PLAIN
        elif code in _SWITCHES:
            state = replace(state, **_SWITCHES[code])
        else:
            state = _basic_colour(code, state)
    return state


def _basic_colour(code: int, state: SgrState) -> SgrState:
    for first, colour in ((30, 0), (90, 8)):
        if first <= code < first + 8:
            return replace(state, fg=code - first + colour)
        if first + 10 <= code < first + 18:
            return replace(state, bg=code - first - 10 + colour)
    if code == 39:
        return replace(state, fg=None)
    return replace(state, bg=None) if code == 49 else state


def _colour(code: int, numbers: list[int], state: SgrState) -> SgrState:
    """Colours of 256 and of 24 bits become the nearest of the sixteen that every theme has."""
    if numbers[:1] == [5] and len(numbers) >= 2 and numbers[1] < 256:
        colour = numbers[1] if numbers[1] < 16 else _nearest(*_indexed(numbers[1]))
    elif numbers[:1] == [2] and len(numbers) >= 4 and max(numbers[1:4]) < 256:
        colour = _nearest(*numbers[1:4])
    else:
        return state
    if code == 38:
        return replace(state, fg=colour)
    return replace(state, bg=colour) if code == 48 else state


def _indexed(index: int) -> tuple[int, int, int]:
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    steps = (0, 95, 135, 175, 215, 255)
    index -= 16
    return steps[index // 36], steps[index // 6 % 6], steps[index % 6]


_SIXTEEN = (
    *((0, 0, 0), (170, 0, 0), (0, 170, 0), (170, 85, 0)),
    *((0, 0, 170), (170, 0, 170), (0, 170, 170), (170, 170, 170)),
    *((85, 85, 85), (255, 85, 85), (85, 255, 85), (255, 255, 85)),
    *((85, 85, 255), (255, 85, 255), (85, 255, 255), (255, 255, 255)),
)


@lru_cache(maxsize=4096)
def _nearest(red: int, green: int, blue: int) -> int:
    def distance(index: int) -> int:
        r, g, b = _SIXTEEN[index]
        return (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2

    return min(range(16), key=distance)
