"""Job traces: files of past jobs, as columns.

A trace is a CSV file, plain or `.gz`, with a header. Columns: `submit` and `duration` in seconds,
`gpus`, and optionally `vc`, the pool it belongs to. Others are ignored.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduler.engine.snapshot import Floats, Ints, floats, ints

# The pool of traces that name none.
ALL = "all"
NEEDED = ("submit", "duration", "gpus")


class TraceInvalid(ValueError):
    """The file is no trace; the text says where and what to change."""


# By kind of wrong declaration: how far below the truth it may be, as an exponent of its factor.
LEAST_EXPONENT = {"noisy": -1.0, "padded": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in the order of the file: times in whole seconds, a run lasts one at least."""

    submit_s: Ints
    duration_s: Ints
    gpus: Ints
    pool: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.submit_s)

    def sorted_rows(self) -> Ints:
        """All rows, by time of submit, then by duration and GPUs."""
        return self._sorted(ints(np.arange(len(self))))

    def by_pool(self) -> dict[str, Ints]:
        """The rows of each pool, in the same order."""
        rows: dict[str, list[int]] = {}
        for row, pool in enumerate(self.pool):
            rows.setdefault(pool, []).append(row)
        return {pool: self._sorted(ints(rows[pool])) for pool in sorted(rows)}

    def _sorted(self, rows: Ints) -> Ints:
        keys = (self.gpus[rows], self.duration_s[rows], self.submit_s[rows])
        return ints(rows[np.lexsort(keys)])


def read_trace(path: Path) -> Trace:
    """Raises TraceInvalid, and OSError if the file cannot be read."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as file:
        try:
            return parse_trace(file)
        except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile) as error:
            raise TraceInvalid(f"{path} is not a CSV file: {error}") from None


def parse_trace(lines: Iterable[str]) -> Trace:
    """A trace from lines of CSV, the header first. Raises TraceInvalid."""
    reader = csv.DictReader(lines)
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise TraceInvalid(
            f"the trace has no column {', '.join(missing)}; its first line must name "
            f"{', '.join(NEEDED)} and may name vc"
        )
    jobs = [_job(row, reader.line_num) for row in reader]
    if not jobs:
        raise TraceInvalid("the trace has no jobs; add a line for each below the header")
    submit, duration, gpus, pool = zip(*jobs, strict=True)
    return Trace(ints(submit), ints(duration), ints(gpus), pool)


def _job(row: Mapping[str, str], line: int) -> tuple[int, int, int, str]:
    submit, duration, gpus = (_number(row, name, line) for name in NEEDED)
    if gpus < 1:
        raise TraceInvalid(f"line {line}: gpus is {gpus}; a job needs at least 1")
    if duration < 0:
        raise TraceInvalid(f"line {line}: duration is {duration}; it must be 0 or more seconds")
    return submit, max(1, duration), gpus, row.get("vc") or ALL


def _number(row: Mapping[str, str], name: str, line: int) -> int:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise TraceInvalid(f"line {line}: {name} is {row[name]!r}; write a number")
    return int(value)


def declared_s(trace: Trace, durations: str, seed: int) -> Floats:
    """What users say their jobs will take: the truth, `noisy:F`, `padded:F`, nothing (infinite).

    `noisy:F`: duration x F^u with u uniform in [-1, 1], `padded:F` in [0, 1] as who fears a time
    limit, drawn in the order of the file. Raises TraceInvalid for another word.
    """
    if durations == "exact":
        return floats(trace.duration_s)
    if durations == "hidden":
        return floats(np.full(len(trace), np.inf))
    kind, _, factor_text = durations.partition(":")
    try:
        factor = float(factor_text) if kind in LEAST_EXPONENT else math.nan
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor >= 1):
        raise TraceInvalid(
            f"durations {durations!r} are unknown; say exact, hidden, noisy:F or padded:F, "
            "F at least 1"
        )
    exponents = np.random.default_rng(seed).uniform(LEAST_EXPONENT[kind], 1.0, len(trace))
    return floats(trace.duration_s * factor**exponents)
