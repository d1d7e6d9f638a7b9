"""Job traces out: the jobs of a run or of a window, in the columns that `reading.py` reads.

What became of each job follows as `start`, `end`, `waited`, `stops` and `failures`; a reader passes
them over, so that a result is a trace again.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduler.engine.snapshot import Floats, Ints, floats, ints
from scheduler.simulator.traces.reading import ALL, TIERS, UNKNOWN, Trace
from scheduler.simulator.workload import Workload

_WORD_OF = {value: word for word, value in TIERS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """What became of the jobs of a trace, row by row: when each first started and when it ended,
    what it waited in all, how often it was stopped for others or failed with its node. Who never
    ran has no start (NaN).
    """

    start_s: Floats
    end_s: Floats
    waited_s: Floats
    stops: Ints
    failures: Ints

    @classmethod
    def none(cls, size: int) -> Results:
        """Nobody has run yet."""

        def blank() -> Floats:
            return floats(np.full(size, np.nan))

        return cls(blank(), blank(), blank(), ints(np.zeros(size)), ints(np.zeros(size)))

    def put(self, rows: Ints, results: Results) -> None:
        """Enter what became of these rows."""
        for name in self.__slots__:
            getattr(self, name)[rows] = getattr(results, name)


def trace_of(workload: Workload, pools: Sequence[str], teams: Sequence[str]) -> Trace:
    """The jobs of a workload as a trace, in whole seconds; `pools` and `teams` name its rows."""
    size = len(workload)
    unknown = {name: floats(np.full(size, value)) for name, value in UNKNOWN.items()}
    return Trace(
        submit_s=ints(np.rint(workload.submit_s)),
        duration_s=ints(np.maximum(1, np.rint(workload.run_s))),
        gpus=workload.gpus,
        pool=tuple(pools[row] for row in workload.pools().tolist()),
        team=tuple(teams[row] for row in workload.teams().tolist()) if teams else None,
        tier=workload.tier,
        stated_s=workload.declared_s,
        checkpoint_s=_or(workload.checkpoint_s, unknown["checkpoint"]),
        promised_s=_or(workload.promised_s, unknown["promised"]),
        nodes=workload.nodes,
    )


def _or(column: Floats | None, unknown: Floats) -> Floats:
    return unknown if column is None else column


def write_trace(path: Path, trace: Trace, results: Results | None = None) -> None:
    """Packed if the name ends in `.gz`; the same jobs give the same bytes. Raises OSError."""
    text = "".join(trace_lines(trace, results)).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def trace_lines(trace: Trace, results: Results | None = None) -> Iterator[str]:
    """Lines of CSV, the header first. Columns that the trace has not are left out."""
    columns = dict(_columns(trace, results))
    yield _line(list(columns))
    for cells in zip(*columns.values(), strict=True):
        yield _line(cells)


def _line(cells: Sequence[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def _columns(trace: Trace, results: Results | None) -> Iterator[tuple[str, Sequence[object]]]:
    yield "submit", trace.submit_s.tolist()
    yield "duration", trace.duration_s.tolist()
    yield "gpus", trace.gpus.tolist()
    if trace.nodes is not None:
        yield "nodes", [nodes or "" for nodes in trace.nodes.tolist()]
    if set(trace.pool) != {ALL}:
        yield "vc", trace.pool
    if trace.team is not None:
        yield "team", trace.team
    if trace.tier is not None:
        yield "tier", [_WORD_OF[tier] for tier in trace.tier.tolist()]
    stated = (trace.stated_s, trace.checkpoint_s, trace.promised_s)
    for (name, unknown), column in zip(UNKNOWN.items(), stated, strict=True):
        if column is not None and (column != unknown).any():
            yield name, ["" if value == unknown else _short(value) for value in column.tolist()]
    if results is None:
        return
    has_run = np.isfinite(results.start_s).tolist()
    for name in ("start", "end", "waited"):
        column = getattr(results, f"{name}_s")
        cells = [_short(value) for value in column.tolist()]
        yield name, [cell if ran else "" for cell, ran in zip(cells, has_run, strict=True)]
    yield "stops", results.stops.tolist()
    yield "failures", results.failures.tolist()


def _short(value: float) -> str:
    """Whole seconds without a point; to the millisecond."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
