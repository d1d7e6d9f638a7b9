"""Lists and parts of a spec in one line, as a form's field and a command line take them."""

from __future__ import annotations

from typing import Any


def in_one_line(value: Any) -> str:
    """A value of a readable spec as forms and options take it: `2,4,8`, `solver=2`, `rack`."""
    if isinstance(value, dict) and "range" in value:
        parallel = value.get("max_parallel", 0)
        return f"{value['range']}%{parallel}" if parallel else str(value["range"])
    if isinstance(value, dict) and "level" in value:
        return f"{value['level']}:{value.get('mode', 'required')}"
    if isinstance(value, dict):
        return ",".join(f"{name}={count}" for name, count in value.items())
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
