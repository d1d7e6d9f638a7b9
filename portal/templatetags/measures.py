"""Numbers as people read them. Pure functions; `portal.py` makes them filters."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from numbers import Integral

from scheduler.states import hours_words, span_words

NOTHING = "–"
_CENT = Decimal("0.01")
_SECOND = timedelta(seconds=1)
_TENTH = Decimal("0.1")
_MIB_STEPS = (("TiB", 1024 * 1024), ("GiB", 1024), ("MiB", 1))
_VENDOR_WORDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "graphics", "device", "hbm3"})
_VENDOR_WORDS |= {"hbm2", "hbm2e", "hbm3e", "gpu", "corporation"}
_FORM_FACTOR = re.compile(r"^(sxm\d?|pcie|oam|hgx)$", re.IGNORECASE)
# Combining marks, three on one letter.
_PILE = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3}"
)
_BIDI_CONTROLS = re.compile("[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def as_seconds(value: object) -> int | None:
    """Whole seconds of a number or timedelta; None for anything else, negatives as 0."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return max(0, int(value))


def duration(value: object) -> str:
    """Two units at most: `42 s`, `2 min 5 s`, `35 min`, `9 h 12 min`, `3 d 4 h`."""
    seconds = as_seconds(value)
    return NOTHING if seconds is None else span_words(seconds)


def run_time(value: object) -> str:
    """How long something ran; what has run at all did not run for `0 s`, but `under 1 s`."""
    is_short = isinstance(value, timedelta) and timedelta(0) < value < _SECOND
    return "under 1 s" if is_short else duration(value)


SPANS = (duration, run_time)


def as_decimal(value: object) -> Decimal | None:
    """The exact Decimal of an int, Decimal or numeric text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def money(amount: object, currency: str) -> str:
    """Two decimals and the ISO code; less than half a cent with its sign and first two digits."""
    number = as_decimal(amount)
    return NOTHING if number is None else f"{_rounded(number, _CENT)} {currency}"


def less(amount: Decimal, other: Decimal) -> str:
    """`{{ charged|less:cost }}`: the difference of two amounts as they are printed, to the cent."""
    left, right = (each.quantize(_CENT, ROUND_HALF_UP) for each in (amount, other))
    return f"{left - right + 0:,f}".replace("-", "−")


def _rounded(number: Decimal, step: Decimal) -> str:
    """To `step`, halves away from zero; what would vanish to its first two digits: −0.0034."""
    rounded = number.quantize(step, ROUND_HALF_UP)
    if rounded or not number:
        return f"{rounded + 0:,f}".replace("-", "−")
    second = Decimal(1).scaleb(number.adjusted() - 1)
    return shortest(number.quantize(second, ROUND_HALF_UP)).replace("-", "−")


def shortest(amount: Decimal) -> str:
    """All digits of an amount, without exponent and without zeros that say nothing."""
    text = format(amount, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def price_text(price: Decimal) -> str:
    """Two decimals at least and six at most: 2.10, 0.0125; what is smaller in full."""
    exact = shortest(price)
    places = len(exact.partition(".")[2])
    rounded = price.quantize(Decimal("0.000001")) if places > 6 else price
    if rounded or not price:
        exact = f"{rounded:,.{min(6, max(2, len(shortest(rounded).partition('.')[2])))}f}"
    return exact.replace("-", "−")


def gpu_hours(gpu_seconds: object, places: int | None = None) -> str:
    """GPU-hours as `scheduler.states` says them; `places`: the decimals of a whole column."""
    number = as_decimal(gpu_seconds)
    return NOTHING if number is None else hours_words(number, places)


def count(number: object) -> object:
    """`{{ pool.total|count }}`: a whole number of things, with commas between thousands; anything
    else as it is."""
    return f"{number:,}" if isinstance(number, Integral) else number


def mib(value: object) -> str:
    """A size given in MiB: `512 MiB`, `1.5 GiB`, `80 GiB`, `2 TiB`."""
    number = as_decimal(value)
    if number is None:
        return NOTHING
    for unit, size in _MIB_STEPS:
        if number >= size:
            return f"{_short(number / size)} {unit}"
    return f"{_short(number)} MiB"


def size_bytes(value: object) -> str:
    """A size given in bytes: `812 B`, `1.2 MiB`."""
    number = as_decimal(value)
    if number is None:
        return NOTHING
    if number < 1024:
        return f"{int(number)} B"
    if number < 1024 * 1024:
        return f"{_short(number / 1024)} KiB"
    return mib(number / (1024 * 1024))


def _short(number: Decimal) -> str:
    rounded = number.quantize(_TENTH, ROUND_HALF_UP)
    if rounded >= 100 or rounded == rounded.to_integral_value():
        return f"{rounded.quantize(Decimal(1), ROUND_HALF_UP):,}"
    return f"{rounded:,}"


def percent(value: object) -> str:
    """A number on the scale 0-100: `96 %`; below ten, and just below all, with one decimal."""
    number = as_decimal(value)
    if number is None:
        return NOTHING
    if 0 < abs(number) < 10:
        text = f"{number.quantize(_TENTH, ROUND_HALF_UP)}"
        return f"{text.removesuffix('.0')} %"
    if 99 < abs(number) < 100:
        # What is not all is never told as all.
        return f"{number.quantize(_TENTH, ROUND_DOWN)}".removesuffix(".0") + " %"
    return f"{number.quantize(Decimal(1), ROUND_HALF_UP):,} %"


def share_percent(part: object, whole: object) -> Decimal:
    """`part` of `whole` on the scale 0-100, clamped; 0 where there is no whole."""
    top, bottom = as_decimal(part), as_decimal(whole)
    if top is None or not bottom or bottom < 0:
        return Decimal(0)
    return min(Decimal(100), max(Decimal(0), top * 100 / bottom))


def device_short_name(model: str) -> str:
    """`NVIDIA H100 80GB HBM3` → `H100 80GB`; unknown names lose the maker's words only."""
    simulated = "simulated" in model.lower()
    words = re.split(r"[\s-]+", model.strip())
    kept = [
        word
        for word in words
        if word
        and word.lower().strip("()") not in _VENDOR_WORDS | {"simulated"}
        and not _FORM_FACTOR.match(word)
    ]
    name = " ".join(kept) or model.strip() or "GPU"
    return f"{name} (simulated)" if simulated else name


def gpu_count(model: str, count: object) -> str:
    """`H100 80GB × 8`; without a model `any GPU × 8`; none is `no GPU`."""
    if str(count) == "0":
        return "no GPU"
    name = device_short_name(model) if model.strip() else "any GPU"
    return f"{name} × {count}"


def plain(text: str) -> str:
    """Text for titles and attributes: no control characters, nothing that turns its direction."""
    return _BIDI_CONTROLS.sub("", text)


def is_piled(text: str) -> bool:
    """Whether marks are stacked on a letter so that they reach into the lines beside theirs."""
    return _PILE.search(text) is not None
