"""What shapes and limits in a snapshot have to obey; `checks.py` asks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.engine.snapshot import (
    ISOLATIONS,
    NONE,
    SPREADS,
    TOPOLOGIES,
    WHOLE_MILLI,
    Flags,
    Ints,
    Snapshot,
    Waiting,
    flags,
)


def shape_rules(snapshot: Snapshot, waiting: Waiting) -> dict[str, Flags]:
    """By column of `Waiting` that says how a job is shaped, whether each value makes sense."""
    elastic = waiting.nodes_min > 0
    sets = [
        (waiting.sizes == row) & ((waiting.nodes < min(sizes)) | (waiting.nodes_min > max(sizes)))
        for row, sizes in enumerate(snapshot.size_sets)
    ]
    misses = np.logical_or.reduce(sets) if sets else np.zeros(len(waiting), dtype=np.bool_)
    masks = 0 if snapshot.node_masks is None else len(snapshot.node_masks)
    datasets = 0 if snapshot.missing_mib is None else len(snapshot.missing_mib)
    prefers = waiting.prefers
    return {
        "nodes_min": (waiting.nodes_min >= 0)
        & (waiting.nodes_min <= waiting.nodes)
        & (~elastic | (waiting.part_gpus == 0)),
        "sizes": _rows(waiting.sizes, len(snapshot.size_sets))
        & (elastic | (waiting.sizes == NONE))
        & ~misses,
        "topology": _rows(waiting.topology, len(TOPOLOGIES)) & (waiting.topology >= 0),
        "spread": _rows(waiting.spread, len(SPREADS)) & (waiting.spread >= 0),
        "is_exclusive": ~waiting.is_exclusive
        | ((waiting.gpu_milli == WHOLE_MILLI) & (waiting.part_gpus == 0)),
        "mask": _rows(waiting.mask, masks),
        "gpu_memory_mib": waiting.gpu_memory_mib >= 0,
        "scratch_mib": waiting.scratch_mib >= 0,
        "licences": _rows(waiting.licences, len(snapshot.licence_sets)),
        "dataset": _rows(waiting.dataset, datasets),
        "isolation": _rows(waiting.isolation, len(ISOLATIONS)) & (waiting.isolation >= 0),
        "tenant": waiting.tenant >= NONE,
        "prefers": ~prefers | (waiting.model >= len(snapshot.models)),
    }


def find_contradictions(snapshot: Snapshot) -> Iterator[str]:
    """The names of whatever else about shapes makes no sense."""
    nodes, devices, tokens = snapshot.nodes, snapshot.devices, snapshot.tokens
    size, licences = len(nodes.id), len(snapshot.licences)
    columns = {
        "nodes.rack": nodes.rack >= NONE,
        "nodes.block": nodes.block >= NONE,
        "nodes.failures": nodes.failures >= 0,
        "nodes.scratch_total_mib": nodes.scratch_total_mib >= 0,
        "nodes.scratch_free_mib": nodes.scratch_free_mib >= 0,
        "devices.memory_mib": devices.memory_mib >= 0,
        "devices.isolation": _rows(devices.isolation, len(ISOLATIONS)) & (devices.isolation >= 0),
        "devices.card": devices.card >= NONE,
        "held.tenant": snapshot.held.tenant >= NONE,
        "licence_total": snapshot.licence_total >= 0,
        "tokens.licence": _rows(tokens.licence, licences) & (tokens.licence >= 0),
        "tokens.count": tokens.count >= 1,
        "tokens.until_s": ~np.isnan(tokens.until_s),
    }
    yield from (name for name, holds in columns.items() if not holds.all())
    if len(snapshot.licence_total) != licences:
        yield "licence_total"
    for name, table in (("node_masks", snapshot.node_masks), ("missing_mib", snapshot.missing_mib)):
        if table is None:
            continue
        if table.ndim != 2 or table.shape[1] != size or (table < 0).any():
            yield name
    if not all(sizes and min(sizes) >= 1 for sizes in snapshot.size_sets):
        yield "size_sets"
    for members in snapshot.licence_sets:
        if not all(0 <= row < licences and count >= 1 for row, count in members):
            yield "licence_sets"


def _rows(column: Ints, count: int) -> Flags:
    return flags((column >= NONE) & (column < count))
