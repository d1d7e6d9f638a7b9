"""Requests and sizes in words, as sentences use them."""

from __future__ import annotations

import numpy as np

from scheduler.engine.board import Board
from scheduler.engine.snapshot import NONE, WHOLE_MILLI, Request


def name_words(board: Board, request: Request) -> dict[str, object]:
    """The facts every reason has: pool, queue and need."""
    snapshot = board.snapshot
    return {
        "pool": snapshot.pools[request.pool],
        "queue": snapshot.queues[request.queue],
        "need": need_words(board, request, with_host=False),
    }


def need_words(board: Board, request: Request, *, with_host: bool) -> str:
    """Such as "2 nodes x 4 H100", or "1 GPU with 64 CPUs and 512 GiB"."""
    words = gpu_words(request.gpus, model_words(board, request))
    if request.is_share:
        words = f"{request.gpu_milli / WHOLE_MILLI:g} {model_words(board, request) or 'GPU'}"
    if not request.gpus:
        words = f"{request.cpus} CPUs and {size_words(request.memory_mib)}"
        with_host = False
    if request.nodes > 1:
        words = f"{request.nodes} nodes x {words}"
    if request.part_gpus:
        words += f" and 1 node x {gpu_words(request.part_gpus, model_words(board, request))}"
    if with_host:
        words += f" with {request.cpus} CPUs and {size_words(request.memory_mib)}"
        words += " on each" if request.nodes > 1 else ""
    return words


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
