"""Durations and sizes as people write them, to whole seconds and MiB and back."""

from __future__ import annotations

import re

from scheduler.spec.problems import given

_DURATION_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_WORDS = re.compile(
    r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII
)
_ISO = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,5})-)?(\d{1,6}):([0-5]?\d):([0-5]?\d)", re.ASCII)
_DAYS_HOURS = re.compile(r"(\d{1,5})-(\d{1,2})(?::([0-5]?\d))?", re.ASCII)
_DIGITS = re.compile(r"\d{1,12}", re.ASCII)

_SIZE = re.compile(r"(\d{1,12})(?:\.(\d{1,3}))?\s*([KMGTP]?)(i?)B?", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

DURATION_HELP = "write it like 90m, 2h, 1d12h, 1-12:00:00 or PT2H"
SIZE_HELP = "write it like 16GB, 64GiB or 512MiB"


def parse_duration(value: object) -> int:
    """Seconds from `90m`, `1d12h`, Slurm's `D-HH:MM:SS`, ISO 8601 `PT2H`, or a count of seconds."""
    if isinstance(value, bool):
        raise ValueError(f"{given(value)} is not a duration; {DURATION_HELP}")
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{given(value)} is not a duration; {DURATION_HELP}")
    text = value.strip()
    if _DIGITS.fullmatch(text):
        return int(text)
    compact = text.replace(" ", "")
    if compact and (match := _WORDS.fullmatch(compact.lower())):
        sizes = _DURATION_UNITS.values()
        return sum(int(part or 0) * size for part, size in zip(match.groups(), sizes, strict=True))
    if (
        len(compact) > 2
        and not compact.endswith("T")
        and (match := _ISO.fullmatch(compact.upper()))
    ):
        parts = zip(match.groups(), (86400, 3600, 60, 1), strict=True)
        return sum(int(part or 0) * size for part, size in parts)
    if match := _CLOCK.fullmatch(compact):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    if match := _DAYS_HOURS.fullmatch(compact):
        days, hours, minutes = (int(part or 0) for part in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60
    raise ValueError(f"{given(value)} is not a duration; {DURATION_HELP}")


def format_duration(seconds: int) -> str:
    """The shortest exact spelling `parse_duration` reads back: 5400 -> `1h30m`."""
    parts = []
    for unit in "dhms":
        count, seconds = divmod(seconds, _DURATION_UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_size_mib(value: object) -> int:
    """MiB, rounded up, from `16GB` (decimal), `64GiB` or `64Gi` (binary), or a count of MiB."""
    if isinstance(value, bool):
        raise ValueError(f"{given(value)} is not a size; {SIZE_HELP}")
    if isinstance(value, int):
        return value
    if not isinstance(value, str):
        raise ValueError(f"{given(value)} is not a size; {SIZE_HELP}")
    match = _SIZE.fullmatch(value.strip())
    if not match:
        raise ValueError(f"{given(value)} is not a size; {SIZE_HELP}")
    whole, fraction, prefix, binary = match.groups()
    if not prefix and not binary:
        if fraction:
            raise ValueError(f"{given(value)} needs a unit; {SIZE_HELP}")
        return int(whole)
    factor = (1024 if binary else 1000) ** _POWERS[prefix.lower()]
    digits = len(fraction or "")
    size_bytes: int = int(whole + (fraction or "")) * factor // 10**digits
    return -(-size_bytes // (1024 * 1024))


def format_size_mib(mib: int) -> str:
    """`8192` -> `8GiB`, else in MiB."""
    return f"{mib // 1024}GiB" if mib and mib % 1024 == 0 else f"{mib}MiB"
