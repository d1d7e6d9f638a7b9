"""What few jobs ask for beside numbers of nodes, GPUs, cpus and memory, and the tables for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet

from accounts.statements import AskedOnce
from scheduler.engine.snapshot import (
    ISOLATIONS,
    SPREADS,
    TOPOLOGIES,
    WHOLE_MILLI,
    Snapshot,
    flags,
    ints,
    rows_by_group,
)
from scheduler.loop.loading.cluster.labels import Labels, as_mask, mask_words
from scheduler.loop.loading.cluster.parts import Parts
from scheduler.loop.loading.columns import Columns, ModelRows, seconds_of, with_cells
from scheduler.loop.loading.jobs import fields_of
from scheduler.loop.loading.money.sizes import load_paid_nodes
from scheduler.loop.loading.texts import LineMemory, as_lines, rows_of_lines
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
    "max_cost_steps",
    "pool_choice",
)
_PARSED = "node_sizes gpu_models licences constraints exclude_nodes datasets pool_choice".split()
# Of those nobody asks for any more so many are kept, and as many as there are jobs.
_SPARE_ASKS = 1000
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
    are those it takes by now, in the order of preference. `priced`: elastic ones with a highest
    price. `choices`: by job the names of the pools that it chooses from.
    """

    cells: dict[str, dict[int, Any]] = field(default_factory=dict)
    model_sets: _Sets = field(default_factory=_Sets)
    size_sets: _Sets = field(default_factory=_Sets)
    masks: _Sets = field(default_factory=_Sets)
    licence_sets: _Sets = field(default_factory=_Sets)
    data_sets: _Sets = field(default_factory=_Sets)
    models: dict[int, int] = field(default_factory=dict)
    priced: set[int] = field(default_factory=set)
    choices: dict[int, Sequence[str]] = field(default_factory=dict)

    def put(self, column: str, jobs: Sequence[int], value: Any) -> None:
        self.cells.setdefault(column, {}).update(dict.fromkeys(jobs, value))


@dataclass(frozen=True, slots=True)
class _Ask:
    """What a job asks for, by field; of those alike it is the first one's."""

    fields: Mapping[str, Any]

    @property
    def changes(self) -> bool:
        """Whether it depends on how long the job has waited."""
        return bool(self.fields["gpu_models"] and self.fields["fallback_after_s"])

    @property
    def is_elastic(self) -> bool:
        """Whether it may change its size at work."""
        return bool(self.fields["nodes_min"] < self.fields["nodes"])


@dataclass(slots=True)
class WishMemory:
    """What each line of the last look asks for, and what was asked for lately.

    Jobs are many, most wait from look to look, and many ask for the same.
    """

    asks: list[_Ask] = field(default_factory=list)
    _ask_of: dict[str, int] = field(default_factory=dict)
    _lines: LineMemory = field(init=False)

    def __post_init__(self) -> None:
        self._lines = LineMemory(self._columns)

    def load(self) -> Columns:
        """Jobs that may ask for more than numbers, in the order of ids: `pk`, `ask` (of `asks`),
        `is_queued`. One query; only new lines are taken apart."""
        text = SHAPED.read()[0][0]
        made = self._lines.take(text)
        if len(self.asks) > _SPARE_ASKS + 2 * len(made["pk"]):
            self.asks, self._ask_of, self._lines = [], {}, LineMemory(self._columns)
            made = self._lines.take(text)
        return made

    def _columns(self, lines: Sequence[str]) -> Columns:
        # Of the state, the id and the moment before what it asks for, none has a comma.
        parts = [line[1:].split(",", 3) for line in lines]
        queued = f'"{JobState.QUEUED}"'
        return {
            "pk": ints([int(pk) for _, pk, _, _ in parts]),
            "is_queued": flags([state.strip() == queued for state, _, _, _ in parts]),
            "ask": ints(list(map(self._ask, lines, [asked for *_, asked in parts]))),
        }

    def _ask(self, line: str, asked: str) -> int:
        known = self._ask_of.get(asked, self._ask_of.get(line))
        if known is None:
            ask = _told(rows_of_lines([line])[0])
            known = self._ask_of[line if ask.changes else asked] = len(self.asks)
            self.asks.append(ask)
        return known


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
    size, or all of those if the policy `moves` them; those of `also` are no rows. A few more
    for elastic ones with a highest price. Call it before the models are counted.

    Equals a look at each job in the order of ids: who asks for the same as one before it adds
    nothing to the tables.
    """
    wishes, memory = Wishes(), memory or WishMemory()
    jobs = memory.load()
    may_change = jobs["is_queued"] | moves
    if not may_change.all():
        is_elastic = flags([ask.is_elastic for ask in memory.asks])
        may_change |= is_elastic[jobs["ask"]]
    ids, asks = jobs["pk"][may_change], jobs["ask"][may_change]
    groups = sorted((rows[0], group, rows) for group, rows in rows_by_group(asks))
    alike = [(memory.asks[group], ids[rows].tolist()) for _, group, rows in groups]
    for ask, pks in (*alike, *_drafts(also)):
        _read(wishes, ask.fields, pks)
        _read_models(wishes, ask.fields, pks, now, models, parts)
        if (booking := ask.fields["booked_in_id"]) in booking_row:
            wishes.put("booking", pks, booking_row[booking])
    if fewer := load_paid_nodes(wishes.priced, also, now):
        wishes.cells["nodes"] = fewer
    return wishes


def _drafts(also: Sequence[Job]) -> Iterator[tuple[_Ask, list[int]]]:
    for job in also:
        if job.is_shaped:
            yield _Ask(dict(zip(_NAMES, fields_of(job, _NAMES), strict=True))), [job.pk]


def _told(row: Sequence[Any]) -> _Ask:
    """A row of the text as the driver would have it read."""
    job = dict(zip(_NAMES, row, strict=True))
    job["queued_at"] = datetime.fromtimestamp(seconds_of(job["queued_at"]), UTC)
    for name in _PARSED:
        if isinstance(job[name], str):
            # SQLite keeps what is structured as a text, which is one inside the text of the row.
            job[name] = json.loads(job[name])
    return _Ask(job)


def _shaped() -> QuerySet[Job, tuple[str | None]]:
    states = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
    return as_lines(Job.objects.filter(state__in=states, is_shaped=True), _NAMES)


SHAPED = AskedOnce(_shaped)


def _read_models(
    wishes: Wishes,
    job: Mapping[str, Any],
    pks: Sequence[int],
    now: datetime,
    models: ModelRows,
    parts: Parts,
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
        row = wishes.model_sets.of(tuple(models.of(name) for name in names))
        wishes.models.update(dict.fromkeys(pks, row))
        wishes.put("prefers", pks, True)


def _read(wishes: Wishes, job: Mapping[str, Any], pks: Sequence[int]) -> None:
    if job["nodes_min"] < job["nodes"]:
        wishes.put("nodes_min", pks, job["nodes_min"])
        if job["max_cost_steps"] is not None:
            wishes.priced.update(pks)
        if job["node_sizes"]:
            wishes.put("sizes", pks, wishes.size_sets.of(tuple(job["node_sizes"])))
    if job["topology_level"]:
        wishes.put("topology", pks, TOPOLOGIES.index(job["topology_level"]))
        wishes.put("spread", pks, SPREADS.index(job["topology_mode"]))
    if job["licences"]:
        wishes.put("licences", pks, wishes.licence_sets.of(tuple(sorted(job["licences"].items()))))
    if job["constraints"] or job["exclude_nodes"]:
        asked = (tuple(job["constraints"]), tuple(job["exclude_nodes"]))
        wishes.put("mask", pks, wishes.masks.of(asked))
    if job["datasets"]:
        wishes.put("dataset", pks, wishes.data_sets.of(tuple(sorted(job["datasets"]))))
    for column, name in (
        ("gpu_memory_mib", "gpu_memory_mib"),
        ("scratch_mib", "scratch_mib"),
        ("is_exclusive", "exclusive"),
        ("shares_cards", "share_cards"),
    ):
        if job[name]:
            wishes.put(column, pks, job[name])
    if job["pool_choice"]:
        wishes.choices.update(dict.fromkeys(pks, job["pool_choice"]))
    if _ISOLATION_ROW[job["isolation"]]:
        wishes.put("isolation", pks, _ISOLATION_ROW[job["isolation"]])


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
