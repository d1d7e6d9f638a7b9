"""Snapshots that contradict themselves are refused by name."""

from __future__ import annotations

import numpy as np

from scheduler.engine.shaping.checking import find_contradictions, shape_rules
from scheduler.engine.sharing.checks import check_accounts, check_job_accounts
from scheduler.engine.snapshot import (
    NODE_STATES,
    NONE,
    WHOLE_MILLI,
    Flags,
    Ints,
    Running,
    Snapshot,
    SnapshotInvalid,
    Table,
    Waiting,
)


def check_snapshot(snapshot: Snapshot) -> None:
    """Refuse a snapshot that contradicts itself, by name; raises SnapshotInvalid."""
    _check_lengths(snapshot)
    nodes, devices, held = snapshot.nodes, snapshot.devices, snapshot.held
    if not np.isfinite(snapshot.now_s):
        raise SnapshotInvalid("the time is not a number")
    _need("nodes.pool", _rows(nodes.pool, len(snapshot.pools)))
    _need("nodes.state", _rows(nodes.state, len(NODE_STATES)))
    for name in ("cpus_total", "cpus_free", "memory_total_mib", "memory_free_mib"):
        _need(f"nodes.{name}", getattr(nodes, name) >= 0)
    for name, ids in (("nodes", nodes.id), ("devices", devices.id)):
        _need(f"{name}.id twice", np.diff(np.sort(ids)) > 0)
    _need("devices.node", _rows(devices.node, len(nodes.id)))
    _need("devices.node order", np.diff(devices.node) >= 0)
    _need("devices.model", _rows(devices.model, len(snapshot.models)))
    _need("devices.holder", _rows(devices.holder, len(held.job), or_none=True))
    _need("devices.claim", _rows(devices.claim, len(snapshot.claims.job), or_none=True))
    _need("devices.link_group", devices.link_group >= 0)
    _need("devices.wide_group", devices.wide_group >= NONE)
    _check_slices(snapshot)
    for row, members in enumerate(snapshot.model_sets):
        if not members or not all(0 <= model < len(snapshot.models) for model in members):
            raise SnapshotInvalid(f"model_sets row {row} has a value that makes no sense")
    windows = snapshot.windows
    _need("windows.node", _rows(windows.node, len(nodes.id)))
    _need("windows.from_s", windows.from_s < windows.until_s)
    _check_calendar(snapshot)
    _check_held(snapshot)
    _need("promises.node", _rows(snapshot.promises.node, len(nodes.id)))
    _need("promises.start_s", ~np.isnan(snapshot.promises.start_s))
    if snapshot.prices is not None:
        _need("prices", snapshot.prices >= 0)
    if snapshot.own_prices is not None and snapshot.price_list is not None:
        _need("own_prices", snapshot.own_prices >= 0)
        _need("price_list", _rows(snapshot.price_list, len(snapshot.own_prices), or_none=True))
    if snapshot.wait_limit_s is not None:
        _need("wait_limit_s", snapshot.wait_limit_s >= 0)
    if snapshot.run_share is not None:
        _need("run_share", (snapshot.run_share > 0) & (snapshot.run_share <= 1))
    if snapshot.model_milli is not None:
        _need("model_milli", (snapshot.model_milli >= 1) & (snapshot.model_milli <= WHOLE_MILLI))
    _check_demand(snapshot)
    _check_claims(snapshot)
    for name in find_contradictions(snapshot):
        raise SnapshotInvalid(f"{name} has a value that makes no sense")
    check_accounts(snapshot)
    _check_jobs(snapshot, snapshot.waiting)
    if snapshot.running is not None:
        _check_running(snapshot, snapshot.running)


def _check_held(snapshot: Snapshot) -> None:
    held = snapshot.held
    _need("held.node", _rows(held.node, len(snapshot.nodes.id)))
    _need("held.until_s", ~np.isnan(held.until_s))
    for name in ("cpus", "memory_mib", "scratch_mib"):
        _need(f"held.{name}", getattr(held, name) >= 0)


def _check_calendar(snapshot: Snapshot) -> None:
    bookings, booked, headroom = snapshot.bookings, snapshot.booked_nodes, snapshot.headroom
    _need("bookings.pool", _rows(bookings.pool, len(snapshot.pools)))
    _need("bookings.model", _models(snapshot, bookings.model))
    _need("bookings.nodes", bookings.nodes >= 1)
    _need("bookings.gpus_per_node", bookings.gpus_per_node >= 0)
    _need("bookings.from_s", bookings.from_s < bookings.until_s)
    _need("booked_nodes.booking", _rows(booked.booking, len(bookings.id)))
    _need("booked_nodes.node", _rows(booked.node, len(snapshot.nodes.id)))
    _need("held.booking", _rows(snapshot.held.booking, len(bookings.id), or_none=True))
    _need("headroom.pool", _rows(headroom.pool, len(snapshot.pools)))
    _need("headroom.model", _models(snapshot, headroom.model))
    _need("headroom.gpus", headroom.gpus >= 1)


def _check_running(snapshot: Snapshot, running: Running) -> None:
    if len(running.lengths()) > 1:
        raise SnapshotInvalid("the columns of Running differ in length")
    _check_jobs(snapshot, running.jobs)
    for name in ("restart_cost_s", "ran_s", "checkpoint_age_s", "least_s", "rested_s"):
        _need(f"running.{name}", getattr(running, name) >= 0)


def _check_claims(snapshot: Snapshot) -> None:
    """A claim keeps devices of its own node, and none that is held in part."""
    claims, devices = snapshot.claims, snapshot.devices
    _need("claims.node", _rows(claims.node, len(snapshot.nodes.id)))
    _need("claims.gpus", claims.gpus >= 1)
    _need("claims.cpus", claims.cpus >= 0)
    _need("claims.memory_mib", claims.memory_mib >= 0)
    _need("claims.until_s", ~np.isnan(claims.until_s))
    kept = np.flatnonzero(devices.claim != NONE)
    _need("devices.claim", devices.node[kept] == claims.node[devices.claim[kept]])


def _check_slices(snapshot: Snapshot) -> None:
    """Slices lie on shareable devices that nobody holds whole, and never exceed a device."""
    slices, devices = snapshot.slices, snapshot.devices
    _need("slices.holder", _rows(slices.holder, len(snapshot.held.job)))
    _need("slices.device", _rows(slices.device, len(devices.id)))
    is_open = devices.is_shareable & (devices.holder == NONE)
    _need("slices.device", is_open[slices.device])
    _need("slices.device", devices.node[slices.device] == snapshot.held.node[slices.holder])
    _need("slices.milli", slices.milli >= 1)
    _need("slices.milli", devices.free_milli(slices) >= 0)


def _check_demand(snapshot: Snapshot) -> None:
    demand = snapshot.demand
    _need("demand.gpus", demand.gpus >= 0)
    _need("demand.gpu_milli", _are_shares(demand.gpus, demand.gpu_milli))
    _need("demand.cpus", demand.cpus >= 0)
    _need("demand.model", _models(snapshot, demand.model))
    _need("demand.count", demand.count >= 0)


def _check_jobs(snapshot: Snapshot, waiting: Waiting) -> None:
    if not (np.diff(np.sort(waiting.id)) > 0).all():
        raise SnapshotInvalid("a job waits twice")
    rules: dict[str, Flags] = {
        "pool": _rows(waiting.pool, len(snapshot.pools)),
        "queue": _rows(waiting.queue, len(snapshot.queues)),
        "queued_at_s": np.isfinite(waiting.queued_at_s),
        "nodes": waiting.nodes >= 1,
        "gpus_per_node": waiting.gpus_per_node >= 0,
        "gpu_milli": _are_shares(waiting.gpus_per_node, waiting.gpu_milli),
        "cpus": waiting.cpus >= 0,
        "memory_mib": waiting.memory_mib >= 0,
        "model": _models(snapshot, waiting.model),
        "time_limit_s": waiting.time_limit_s >= 1,
        "avoid_node": _rows(waiting.avoid_node, len(snapshot.nodes.id), or_none=True),
        "part_gpus": _are_parts(waiting.gpus_per_node, waiting.part_gpus),
        "remaining_s": waiting.remaining_s > 0,
        "attained_s": waiting.attained_s >= 0,
        "learnt_s": waiting.learnt_s > 0,
        "most_cost": waiting.most_cost >= 0,
        **shape_rules(snapshot, waiting),
        "account": check_job_accounts(snapshot, waiting.account),
        "sharer": check_job_accounts(snapshot, waiting.sharer),
        "booking": _rows(waiting.booking, len(snapshot.bookings.id), or_none=True),
    }
    for name, holds in rules.items():
        if not holds.all():
            jobs = tuple(waiting.id[~holds].tolist())
            raise SnapshotInvalid(f"waiting.{name} has a value that makes no sense", jobs)


def _check_lengths(snapshot: Snapshot) -> None:
    tables: tuple[Table, ...] = (
        snapshot.nodes,
        snapshot.devices,
        snapshot.held,
        snapshot.waiting,
        snapshot.slices,
        snapshot.claims,
        snapshot.demand,
        snapshot.tokens,
        snapshot.windows,
        snapshot.bookings,
        snapshot.booked_nodes,
        snapshot.headroom,
        snapshot.promises,
    )
    for table in tables:
        if len(table.lengths()) > 1:
            raise SnapshotInvalid(f"the columns of {type(table).__name__} differ in length")
    if snapshot.wait_limit_s is not None and len(snapshot.wait_limit_s) != len(snapshot.pools):
        raise SnapshotInvalid("wait_limit_s and pools differ in length")
    if snapshot.run_share is not None and len(snapshot.run_share) != len(snapshot.pools):
        raise SnapshotInvalid("run_share and pools differ in length")
    for name in ("model_milli", "prices"):
        column = getattr(snapshot, name)
        if column is not None and len(column) != len(snapshot.models):
            raise SnapshotInvalid(f"{name} and models differ in length")
    if snapshot.own_prices is not None and (
        snapshot.own_prices.ndim != 2 or snapshot.own_prices.shape[1] != len(snapshot.models)
    ):
        raise SnapshotInvalid("own_prices and models differ in length")
    if snapshot.price_list is not None and len(snapshot.price_list) != len(snapshot.accounts):
        raise SnapshotInvalid("price_list and accounts differ in length")
    if len(snapshot.queue_is_paused) != len(snapshot.queues):
        raise SnapshotInvalid("queue_is_paused and queues differ in length")


def _rows(column: Ints, count: int, *, or_none: bool = False) -> Flags:
    return np.asarray((column >= (NONE if or_none else 0)) & (column < count))


def _models(snapshot: Snapshot, column: Ints) -> Flags:
    return _rows(column, len(snapshot.models) + len(snapshot.model_sets), or_none=True)


def _are_parts(gpus: Ints, part: Ints) -> Flags:
    """A smaller share has fewer devices than the others."""
    return np.asarray((part == 0) | ((part > 0) & (part < gpus)))


def _are_shares(gpus: Ints, milli: Ints) -> Flags:
    """A part of a device is one device's; everything else takes whole ones."""
    is_whole = milli == WHOLE_MILLI
    return np.asarray(is_whole | ((gpus == 1) & (milli >= 1) & (milli < WHOLE_MILLI)))


def _need(name: str, holds: Flags) -> None:
    if not holds.all():
        raise SnapshotInvalid(f"{name} has a value that makes no sense")
