"""Rows of the matrix for cancels that take two people."""

from __future__ import annotations

from typing import Any

_AGREES = {"answer": "agree"}

# As the fields of `matrix.Row`.
ROWS: tuple[tuple[Any, ...], ...] = (
    ("cancels:detail", "200 404 200 404 200 404 200", "GET", ("bulk_cancel",)),
    ("cancels:decide", "302 404 302 404 302 404 302", "POST", ("bulk_cancel",), _AGREES),
)
