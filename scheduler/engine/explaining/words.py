"""Requests and sizes in words, as sentences use them."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.shaping.topology import BALANCED, PREFERRED
from scheduler.engine.snapshot import ISOLATIONS, NONE, TOPOLOGIES, WHOLE_MILLI, Request


def name_words(board: Board, request: Request) -> dict[str, object]:
    """The facts every reason has: pool, queue and need."""
    snapshot = board.snapshot
    return {
        "pool": snapshot.pools[request.pool],
        "queue": snapshot.queues[request.queue],
        "need": need_words(board, request, with_host=False),
    }


def need_words(board: Board, request: Request, *, with_host: bool) -> str:
    """Such as "2 nodes × 4 H100", or "1 GPU with 64 CPUs and 512 GiB"."""
    words = gpu_words(request.gpus, model_words(board, request))
    if request.is_share:
        words = f"{request.gpu_milli / WHOLE_MILLI:g} {model_words(board, request) or 'GPU'}"
    if not request.gpus:
        words = f"{cpu_words(request.cpus)} and {size_words(request.memory_mib)}"
        with_host = False
    elif request.gpu_memory_mib:
        words += f" of {size_words(request.gpu_memory_mib)}"
    if request.nodes > 1:
        least = f"{request.nodes_min} to " if request.least_nodes < request.nodes else ""
        words = f"{least}{request.nodes} nodes × {words}"
    if request.part_gpus:
        words += f" and 1 node × {gpu_words(request.part_gpus, model_words(board, request))}"
    if with_host:
        words += f" with {cpu_words(request.cpus)} and {size_words(request.memory_mib)}"
        words += " on each" if request.nodes > 1 else ""
    return words + _limit_words(board, request)


def cpu_words(count: int) -> str:
    """Such as "1 CPU" or "64 CPUs"."""
    return f"{count} CPU" + "s" * (count != 1)


def _limit_words(board: Board, request: Request) -> str:
    """What else it asks of its nodes."""
    words = f" and {size_words(request.scratch_mib)} of scratch" if request.scratch_mib else ""
    if request.isolation:
        words += f", kept apart by {ISOLATIONS[request.isolation]}"
    if request.topology and request.spread != PREFERRED:
        words += f" {spread_words(request)}"
    if request.is_exclusive:
        words += " to itself"
    if request.mask != NONE and board.snapshot.mask_names:
        words += f" where {board.snapshot.mask_names[request.mask]}"
    return words


def spread_words(request: Request) -> str:
    """Such as "in one rack" or "in equal parts by rack"."""
    level = TOPOLOGIES[request.topology]
    return f"in equal parts by {level}" if request.spread == BALANCED else f"in one {level}"


def gpu_words(count: int, model: str) -> str:
    """Such as "4 H100" or "1 GPU"."""
    return f"{count} {model}" if model else f"{count} GPU{'' if count == 1 else 's'}"


def model_words(board: Board, request: Request) -> str:
    """The model it asks for, such as "H100" or "A100 or H100"; nothing if it takes any."""
    if request.model == NONE:
        return ""
    takes = np.flatnonzero(board.accepts[request.model]).tolist()
    return " or ".join(board.snapshot.models[model] for model in takes)


def size_words(mib: int) -> str:
    """Such as "512 GiB", below one GiB such as "512 MiB"."""
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib} MiB"
