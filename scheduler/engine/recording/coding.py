"""Values of the engine as plain JSON values and back, without loss.

A dataclass is `{"is": name, "has": fields}`, an enum `{"is": name, "value": text}`, a tuple
`{"tuple": values}`, a column `{"dtype": "<f8", "base64": …}` with its bytes as they are.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np

from scheduler.engine import policy, snapshot
from scheduler.engine.snapshot import Table

_DTYPES = ("<i8", "<f8", "|b1")


class RecordingInvalid(ValueError):
    """The bytes are no recording, or one of a version that knew other things."""


def encode(value: object) -> object:
    """As plain JSON values. Raises TypeError for what the engine has no use for."""
    if isinstance(value, Enum):
        return {"is": type(value).__name__, "value": value.value}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, np.ndarray):
        dtype = value.dtype.newbyteorder("<").str
        raw = np.ascontiguousarray(value).astype(dtype).tobytes()
        return {"dtype": dtype, "base64": base64.b64encode(raw).decode()}
    if isinstance(value, tuple):
        return {"tuple": [encode(one) for one in value]}
    if isinstance(value, Mapping):
        return {"pairs": [[encode(key), encode(one)] for key, one in value.items()]}
    if is_dataclass(value) and not isinstance(value, type):
        has = {one.name: encode(getattr(value, one.name)) for one in fields(value)}
        return {"is": type(value).__name__, "has": has}
    raise TypeError(f"a recording cannot hold {type(value).__name__}")


def decode(plain: object) -> Any:
    """The value again; columns that are new since are filled with what is usual.

    Raises RecordingInvalid for anything that `encode` does not write.
    """
    if not isinstance(plain, dict):
        return plain
    try:
        if "float" in plain:
            return float.fromhex(plain["float"])
        if "dtype" in plain:
            return _decode_column(plain["dtype"], plain["base64"])
        if "tuple" in plain:
            return tuple(decode(one) for one in plain["tuple"])
        if "pairs" in plain:
            return {decode(key): decode(one) for key, one in plain["pairs"]}
        kind = _KINDS[plain["is"]]
        if "value" in plain:
            return kind(plain["value"])
        has = {name: decode(one) for name, one in plain["has"].items()}
        return kind.of(**has) if issubclass(kind, Table) else kind(**has)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise RecordingInvalid(
            f"the recording holds {str(plain)[:60]!r}, which this version does not know: {error}"
        ) from None


def _decode_column(dtype: str, text: str) -> Any:
    if dtype not in _DTYPES:
        raise ValueError(f"no column is of type {dtype!r}")
    column = np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype)
    return column.astype(np.dtype(dtype).newbyteorder("="))


def _kinds(*modules: ModuleType) -> dict[str, Any]:
    """The dataclasses and enums of these modules and of the modules inside them, by name."""
    found: dict[str, Any] = {}
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, ModuleType) and value.__name__.startswith(module.__name__ + "."):
                found |= _kinds(value)
            elif isinstance(value, type) and (is_dataclass(value) or issubclass(value, Enum)):
                found[value.__name__] = value
    return found


_KINDS = _kinds(snapshot, policy)
