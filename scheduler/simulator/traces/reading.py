"""Job traces in: files of past jobs, as columns.

A trace is a CSV file, plain or `.gz`, with a header. Columns: `submit` and `duration` in seconds,
`gpus`, and optionally `nodes`, on how many it has equal shares of these; `vc`, the pool it belongs
to; `team`; `tier` in words; and in seconds
`declared`, what its owner said it takes, `checkpoint`, how often it takes one, `promised`, how long
it may run after each start before it is stopped for another. Empty: nothing is known. Others are
ignored, so what `writing.py` adds of a run does not hinder.
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
from scheduler.states import Tier

# The pool of traces that name none.
ALL = "all"
NEEDED = ("submit", "duration", "gpus")
TIERS = {tier.name.lower(): int(tier) for tier in Tier}
# Optional seconds, and what an empty field says.
UNKNOWN = {"declared": math.inf, "checkpoint": math.inf, "promised": 0.0}
# Beyond this a number is a slip: ten thousand years in seconds, and more GPUs than were ever made.
LARGEST = 10**12


class TraceInvalid(ValueError):
    """The file is no trace; the text says where and what to change."""


# By kind of wrong declaration: how far below the truth it may be, as an exponent of its factor.
LEAST_EXPONENT = {"noisy": -1.0, "padded": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Jobs in the order of the file: times in whole seconds, a run lasts one at least.

    The optional columns are None where the file has none; see `declared_s` for `stated_s`.
    """

    submit_s: Ints
    duration_s: Ints
    gpus: Ints
    pool: tuple[str, ...]
    team: tuple[str, ...] | None = None
    tier: Ints | None = None
    stated_s: Floats | None = None
    checkpoint_s: Floats | None = None
    promised_s: Floats | None = None
    nodes: Ints | None = None

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
    with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
        try:
            return parse_trace(file)
        except (UnicodeDecodeError, csv.Error, gzip.BadGzipFile, EOFError) as error:
            raise TraceInvalid(f"{path} is not a CSV file: {error}") from None


def parse_trace(lines: Iterable[str]) -> Trace:
    """A trace from lines of CSV, the header first. Raises TraceInvalid."""
    reader = csv.DictReader(lines)
    names = reader.fieldnames or ()
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise TraceInvalid(
            f"the trace has no column {', '.join(missing)}; its first line must name "
            f"{', '.join(NEEDED)} and may name nodes, vc, team, tier, {', '.join(UNKNOWN)}"
        )
    jobs, teams, tiers, nodes = [], [], [], []
    seconds: dict[str, list[float]] = {name: [] for name in UNKNOWN if name in names}
    for row in reader:
        jobs.append(_job(row, reader.line_num))
        teams.append(row.get("team") or ALL)
        tiers.append(_tier(row, reader.line_num))
        nodes.append(_nodes(row, jobs[-1][2], reader.line_num) if "nodes" in names else 0)
        for name, column in seconds.items():
            column.append(_seconds(row, name, reader.line_num))
    if not jobs:
        raise TraceInvalid("the trace has no jobs; add a line for each below the header")
    submit, duration, gpus, pool = zip(*jobs, strict=True)
    known = {name: floats(column) for name, column in seconds.items()}
    return Trace(
        ints(submit),
        ints(duration),
        ints(gpus),
        pool,
        team=tuple(teams) if "team" in names else None,
        tier=ints(tiers) if "tier" in names else None,
        stated_s=known.get("declared"),
        checkpoint_s=known.get("checkpoint"),
        promised_s=known.get("promised"),
        nodes=ints(nodes) if "nodes" in names else None,
    )


def _job(row: Mapping[str, str], line: int) -> tuple[int, int, int, str]:
    submit, duration, gpus = (int(_number(row, name, line)) for name in NEEDED)
    if gpus < 1:
        raise TraceInvalid(f"line {line}: gpus is {gpus}; a job needs at least 1")
    if duration < 0:
        raise TraceInvalid(f"line {line}: duration is {duration}; it must be 0 or more seconds")
    return submit, max(1, duration), gpus, row.get("vc") or ALL


def _nodes(row: Mapping[str, str], gpus: int, line: int) -> int:
    """On how many nodes a job of so many GPUs runs; 0 where nothing is said."""
    if not (row["nodes"] or "").strip():
        return 0
    nodes = _number(row, "nodes", line)
    if nodes < 1 or nodes != int(nodes) or gpus % int(nodes):
        raise TraceInvalid(
            f"line {line}: nodes is {row['nodes']}; write a whole number by which the {gpus} GPUs "
            "can be divided, or leave it empty"
        )
    return int(nodes)


def _tier(row: Mapping[str, str], line: int) -> int:
    word = (row.get("tier") or "normal").strip().lower()
    if word not in TIERS:
        raise TraceInvalid(f"line {line}: tier is {word!r}; write one of {', '.join(TIERS)}")
    return TIERS[word]


def _seconds(row: Mapping[str, str], name: str, line: int) -> float:
    """Of an optional column; empty says that nothing is known."""
    if not (row[name] or "").strip():
        return UNKNOWN[name]
    value = _number(row, name, line)
    if value < 0 or (value == 0 and name != "promised"):
        raise TraceInvalid(
            f"line {line}: {name} is {row[name]}; write seconds above 0, or leave it empty"
        )
    return value


def _number(row: Mapping[str, str], name: str, line: int) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise TraceInvalid(f"line {line}: {name} is {row[name]!r}; write a number")
    if abs(value) > LARGEST:
        raise TraceInvalid(f"line {line}: {name} is {row[name]}, more than {LARGEST}")
    return value


def declared_s(trace: Trace, durations: str, seed: int) -> Floats:
    """What users say their jobs will take: the truth, `noisy:F`, `padded:F`, nothing (infinite).

    `noisy:F`: duration x F^u with u uniform in [-1, 1], `padded:F` in [0, 1] as who fears a time
    limit, drawn in the order of the file. `stated`: the trace's own column `declared`. Raises
    TraceInvalid for another word.
    """
    if durations == "exact":
        return floats(trace.duration_s)
    if durations == "hidden":
        return floats(np.full(len(trace), np.inf))
    if durations == "stated":
        if trace.stated_s is None:
            raise TraceInvalid(
                "durations stated: the trace has no column declared; take exact or hidden"
            )
        return trace.stated_s
    kind, _, factor_text = durations.partition(":")
    try:
        factor = float(factor_text) if kind in LEAST_EXPONENT else math.nan
    except ValueError:
        factor = math.nan
    if not (math.isfinite(factor) and factor >= 1):
        raise TraceInvalid(
            f"durations {durations!r} are unknown; say stated, exact, hidden, noisy:F or "
            "padded:F, F at least 1"
        )
    exponents = np.random.default_rng(seed).uniform(LEAST_EXPONENT[kind], 1.0, len(trace))
    return floats(trace.duration_s * factor**exponents)
