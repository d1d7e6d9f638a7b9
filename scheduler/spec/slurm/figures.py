"""Single values as Slurm writes them: times, sizes, GPUs, lists of hosts."""

from __future__ import annotations

import re

_TIME = re.compile(
    r"(?:(?P<days>\d{1,5})-(?P<dh>\d{1,3})(?::(?P<dm>\d{1,2})(?::(?P<ds>\d{1,2}))?)?"
    r"|(?P<h>\d{1,6}):(?P<m>\d{1,2}):(?P<s>\d{1,2})"
    r"|(?P<mm>\d{1,8})(?::(?P<ms>\d{1,2}))?)",
    re.ASCII,
)
_SIZE = re.compile(r"(\d{1,12})([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_GPUS = re.compile(r"(?:gpu[:=])?(?:([A-Za-z][\w.-]{0,63})(?::|$))?(\d{1,4})?", re.ASCII)
_SPAN = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
_ENDLESS = ("0", "infinite", "unlimited", "-1")
MAX_HOSTS = 64


def seconds(value: str) -> int:
    """Seconds of `minutes`, `minutes:seconds`, `h:m:s`, `d-h`, `d-h:m`, `d-h:m:s`; ValueError."""
    if value.lower() in _ENDLESS:
        raise ValueError("asks for no limit; nothing here runs without one, so the default holds")
    match = _TIME.fullmatch(value)
    if match is None:
        raise ValueError("is not a time as Slurm writes it, such as 90 or 1-12:00:00")
    part = {name: int(number or 0) for name, number in match.groupdict().items()}
    days = part["days"] * 86400 + part["dh"] * 3600 + part["dm"] * 60 + part["ds"]
    clock = part["h"] * 3600 + part["m"] * 60 + part["s"]
    return days + clock + part["mm"] * 60 + part["ms"]


def mebibytes(value: str, unit: str = "m") -> int:
    """MiB, rounded up; a figure without a unit is in `unit`. Raises ValueError."""
    match = _SIZE.fullmatch(value)
    if match is None:
        raise ValueError("is not a size as Slurm writes it, such as 64G")
    if not int(match[1]):
        raise ValueError("asks for all memory of a node; say how much, such as 64G")
    return -(-int(match[1]) * _KIB[(match[2] or unit).lower()] // 1024)


def gpus(value: str) -> tuple[str, int]:
    """Type and number of `gpu:h100:8`, `h100:8` or `8`; raises ValueError."""
    if value == "gpu":
        return "", 1
    match = _GPUS.fullmatch(value)
    if match is None or not (match[1] or match[2]):
        raise ValueError("is not a number of GPUs of one type, such as 4 or h100:4")
    return match[1] or "", int(match[2] or 1)


def hosts(value: str) -> list[str]:
    """The names of `n1,n[3-5,7],rack2-n[01-02]`; raises ValueError."""
    found: list[str] = []
    for piece in re.findall(r"[^,\[]+(?:\[[^\]]*\])?[^,\[]*", value):
        head, bracket, rest = piece.strip().partition("[")
        inner, _, tail = rest.partition("]")
        names = [head] if not bracket else [f"{head}{n}{tail}" for n in _span(inner)]
        found += [name for name in names if name]
        if len(found) > MAX_HOSTS:
            raise ValueError(f"names more than {MAX_HOSTS} nodes")
    return list(dict.fromkeys(found))


def _span(inner: str) -> list[str]:
    numbers: list[str] = []
    for piece in inner.split(","):
        match = _SPAN.fullmatch(piece)
        if match is None:
            raise ValueError("is not a list of nodes, such as n1,n[3-5]")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) > MAX_HOSTS:
            raise ValueError(f"names more than {MAX_HOSTS} nodes")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers
