"""What few jobs ask for beside numbers of nodes, GPUs, cpus and memory, and the tables for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import (
    ISOLATIONS,
    SPREADS,
    TOPOLOGIES,
    WHOLE_MILLI,
    Snapshot,
    Waiting,
    flags,
    ints,
)
from scheduler.loop.loading.cluster.labels import Labels, as_mask, mask_words
from scheduler.loop.loading.cluster.parts import Parts
from scheduler.loop.loading.columns import Columns, ModelRows, seconds_of
from scheduler.loop.loading.jobs import fields_of
from scheduler.loop.loading.texts import as_lines, rows_of_lines
from scheduler.models import Job
from scheduler.spec.values import is_mig_profile
from scheduler.states import JobState

_NAMES = (
    "state",
    "pk",
    "queued_at",
    "nodes",
    "nodes_min",
    "node_sizes",
    "gpu_memory_mib",
    "gpu_milli",
    "gpu_model",
    "gpu_models",
    "fallback_after_s",
    "isolation",
    "share_cards",
    "exclusive",
    "scratch_mib",
    "licences",
    "constraints",
    "exclude_nodes",
    "datasets",
    "topology_level",
    "topology_mode",
    "booked_in_id",
)
_STRUCTURED = ("node_sizes", "gpu_models", "licences", "constraints", "exclude_nodes", "datasets")
_ISOLATION_ROW = {"any": 0, "timeslice": 0} | {name: row for row, name in enumerate(ISOLATIONS)}


@dataclass(slots=True)
class _Sets:
    """Rows of a table of sets, each once."""

    rows: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def of(self, members: tuple[Any, ...]) -> int:
        return self.rows.setdefault(members, len(self.rows))


@dataclass(slots=True)
class Wishes:
    """By column of `Waiting` the values that are not the usual ones, by job; and the tables.

    `licence_sets` and `data_sets` hold names; the rest is as the engine has it. `models` of a job
    are those it takes by now, in the order of preference.
    """

    cells: dict[str, dict[int, Any]] = field(default_factory=dict)
    model_sets: _Sets = field(default_factory=_Sets)
    size_sets: _Sets = field(default_factory=_Sets)
    masks: _Sets = field(default_factory=_Sets)
    licence_sets: _Sets = field(default_factory=_Sets)
    data_sets: _Sets = field(default_factory=_Sets)
    models: dict[int, int] = field(default_factory=dict)

    def put(self, column: str, job: int, value: Any) -> None:
        self.cells.setdefault(column, {})[job] = value


@dataclass(slots=True)
class WishMemory:
    """What each line of the last look says: jobs are many, and most wait from look to look."""

    _said: dict[str, dict[str, Any]] = field(default_factory=dict)

    def load(self) -> list[dict[str, Any]]:
        """By field what the jobs ask for that may ask for more than numbers, in the order of ids.
        One query; only new lines are taken apart."""
        text = SHAPED.read()[0][0]
        lines = text.split("\n") if text else []
        new = [line for line in lines if line not in self._said]
        made = dict(zip(new, map(_told, rows_of_lines(new)), strict=True))
        self._said = {line: made.get(line) or self._said[line] for line in lines}
        return sorted(self._said.values(), key=itemgetter("pk"))


def load_wishes(
    now: datetime,
    models: ModelRows,
    parts: Parts,
    booking_row: Mapping[int, int],
    also: Sequence[Job] = (),
    memory: WishMemory | None = None,
    moves: bool = False,
) -> Wishes:
    """One query for the queued jobs that have any, and for those at work that may change their
    size, or all of those if the policy `moves` them; those of `also` are no rows. Call it before
    the models are counted."""
    wishes = Wishes()
    for job in (*(memory or WishMemory()).load(), *_drafts(also)):
        may_change = moves or job["state"] == JobState.QUEUED or job["nodes_min"] < job["nodes"]
        if not may_change:
            continue
        _read(wishes, job)
        _read_models(wishes, job, now, models, parts)
        if job["booked_in_id"] in booking_row:
            wishes.put("booking", job["pk"], booking_row[job["booked_in_id"]])
    return wishes


def _drafts(also: Sequence[Job]) -> Iterator[dict[str, Any]]:
    for job in also:
        if job.is_shaped:
            yield dict(zip(_NAMES, fields_of(job, _NAMES), strict=True))


def _told(row: Sequence[Any]) -> dict[str, Any]:
    """A row of the text as the driver would have it read."""
    job = dict(zip(_NAMES, row, strict=True))
    job["queued_at"] = datetime.fromtimestamp(seconds_of(job["queued_at"]), UTC)
    for name in _STRUCTURED:
        if isinstance(job[name], str):
            # SQLite keeps what is structured as a text, which is one inside the text of the row.
            job[name] = json.loads(job[name])
    return job


def _shaped() -> QuerySet[Job, tuple[str | None]]:
    states = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
    return as_lines(Job.objects.filter(state__in=states, is_shaped=True), _NAMES)


SHAPED = AskedOnce(_shaped)


def _read_models(
    wishes: Wishes, job: Mapping[str, Any], now: datetime, models: ModelRows, parts: Parts
) -> None:
    """A part of a card is one device of any of the models that are large enough."""
    names = job["gpu_models"]
    if names:
        names = models_by_now(names, job["fallback_after_s"], now - job["queued_at"])
    asked = names or ([job["gpu_model"]] if job["gpu_model"] else [])
    if job["gpu_milli"] < WHOLE_MILLI:
        names = parts.fitting(job["gpu_milli"], asked)
    elif any(map(is_mig_profile, asked)):
        names = [model for name in asked for model in parts.named(name)]
    if names:
        wishes.models[job["pk"]] = wishes.model_sets.of(tuple(models.of(name) for name in names))
        wishes.put("prefers", job["pk"], True)


def _read(wishes: Wishes, job: Mapping[str, Any]) -> None:
    pk = job["pk"]
    if job["nodes_min"] < job["nodes"]:
        wishes.put("nodes_min", pk, job["nodes_min"])
        if job["node_sizes"]:
            wishes.put("sizes", pk, wishes.size_sets.of(tuple(job["node_sizes"])))
    if job["topology_level"]:
        wishes.put("topology", pk, TOPOLOGIES.index(job["topology_level"]))
        wishes.put("spread", pk, SPREADS.index(job["topology_mode"]))
    if job["licences"]:
        wishes.put("licences", pk, wishes.licence_sets.of(tuple(sorted(job["licences"].items()))))
    if job["constraints"] or job["exclude_nodes"]:
        asked = (tuple(job["constraints"]), tuple(job["exclude_nodes"]))
        wishes.put("mask", pk, wishes.masks.of(asked))
    if job["datasets"]:
        wishes.put("dataset", pk, wishes.data_sets.of(tuple(sorted(job["datasets"]))))
    for column, name in (
        ("gpu_memory_mib", "gpu_memory_mib"),
        ("scratch_mib", "scratch_mib"),
        ("is_exclusive", "exclusive"),
        ("shares_cards", "share_cards"),
    ):
        if job[name]:
            wishes.put(column, pk, job[name])
    if _ISOLATION_ROW[job["isolation"]]:
        wishes.put("isolation", pk, _ISOLATION_ROW[job["isolation"]])


def models_by_now(names: Sequence[str], fallback_after_s: int, waited: Any) -> list[str]:
    """The first model at once, and one more each time `fallback_after_s` has passed; 0: all."""
    if not fallback_after_s:
        return list(names)
    more = max(0, int(waited.total_seconds())) // fallback_after_s
    return list(names[: 1 + more])


def with_wishes(
    snapshot: Snapshot, wishes: Wishes, nodes: Columns, labels: Labels
) -> dict[str, Any]:
    """The changes of the snapshot: its jobs' columns and its tables; licences have their own."""
    waiting, cells = snapshot.waiting, cells_of(snapshot, wishes)
    masks = [as_mask(labels, nodes["name"], *asked) for asked in wishes.masks.rows]
    return {
        "waiting": with_cells(waiting, cells),
        "model_sets": tuple(wishes.model_sets.rows),
        "size_sets": tuple(wishes.size_sets.rows),
        "node_masks": flags(masks).reshape(len(masks), len(snapshot.nodes.id)) if masks else None,
        "mask_names": tuple(mask_words(*asked) for asked in wishes.masks.rows),
    }


def cells_of(snapshot: Snapshot, wishes: Wishes) -> dict[str, dict[int, Any]]:
    """By column the values that are not the usual ones, by job."""
    models = len(snapshot.models)
    return {**wishes.cells, "model": {pk: models + row for pk, row in wishes.models.items()}}


def with_cells(waiting: Waiting, cells: Mapping[str, Mapping[int, Any]]) -> Waiting:
    """The jobs with these values instead."""
    if not any(cells.values()):
        return waiting
    row_of = {pk: row for row, pk in enumerate(waiting.id.tolist())}
    columns: dict[str, Any] = dict(waiting.columns())
    for name, values in cells.items():
        present = [(row_of[pk], value) for pk, value in values.items() if pk in row_of]
        if present:
            column = columns[name].copy()
            column[ints([row for row, _ in present])] = [value for _, value in present]
            columns[name] = column
    return Waiting(**columns)
