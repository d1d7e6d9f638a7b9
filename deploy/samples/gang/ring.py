#!/usr/bin/env python3
"""Sum a vector over all ranks of a gang, over plain sockets, and prove the variables.

1. Rank 0 listens at MASTER_ADDR:MASTER_PORT; every other rank calls there and tells its variables
   and the port of its own ear.
2. Rank 0 checks that all variables agree with each other and tells everyone where everyone is.
3. The ranks form a ring and sum a vector: each piece goes round twice (reduce, then gather).
4. Every rank compares with the sum it can compute alone; one difference fails the job.

Works with one process per node and with one per GPU. Needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from typing import Any

LENGTH = 4096
PATIENCE_S = 60.0
NAMES = (
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "NODE_RANK", "GROUP_RANK", "NNODES", "NPROC_PER_NODE", "PET_NNODES", "PET_NODE_RANK",
    "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip


def main() -> int:
    """Meet, check, sum, compare."""
    mine = {name: os.environ.get(name, "") for name in NAMES}
    missing = [name for name, value in mine.items() if not value]
    if missing:
        print(f"missing variables: {', '.join(missing)}", flush=True)
        return 2
    rank, world = int(mine["RANK"]), int(mine["WORLD_SIZE"])
    print(f"rank {rank} of {world}: " + " ".join(f"{k}={v}" for k, v in mine.items()), flush=True)
    ear = socket.create_server(("", 0))
    ear.settimeout(PATIENCE_S)
    places, problems = meet(mine, ear.getsockname()[1])
    if problems:
        print("\n".join(f"wrong: {problem}" for problem in problems), flush=True)
        return 3
    began = time.monotonic()
    total = sum_over_ring(rank, world, ear, tuple(places[(rank + 1) % world]))
    took_ms = (time.monotonic() - began) * 1000
    wanted = [sum(value_of(other, index) for other in range(world)) for index in range(LENGTH)]
    if total != wanted:
        print(f"rank {rank}: the sum is wrong", flush=True)
        return 4
    print(f"rank {rank}: sum over {world} ranks is right ({took_ms:.1f} ms)", flush=True)
    if rank == 0:
        print(f"all {world} ranks agree", flush=True)
    return 0


def value_of(rank: int, index: int) -> int:
    """What a rank brings to one place of the vector."""
    return (rank + 1) * (index + 3) % 1009


def meet(mine: dict[str, str], ear_port: int) -> tuple[list[Any], list[str]]:
    """Where every rank listens, and what is wrong with the variables."""
    address = (mine["MASTER_ADDR"], int(mine["MASTER_PORT"]))
    world = int(mine["WORLD_SIZE"])
    if mine["RANK"] != "0":
        with call(address) as line:
            send(line, {"variables": mine, "port": ear_port})
            answer = receive(line)
            return answer["places"], answer["problems"]
    lines: list[socket.socket] = []
    told: dict[int, dict[str, str]] = {0: mine}
    places: list[Any] = [[mine["MASTER_ADDR"], ear_port]] + [None] * (world - 1)
    with socket.create_server(address) as door:
        door.settimeout(PATIENCE_S)
        while len(told) < world:
            line, peer = door.accept()
            line.settimeout(PATIENCE_S)
            said = receive(line)
            rank = int(said["variables"]["RANK"])
            if rank in told or not 0 < rank < world:
                raise SystemExit(f"rank {rank} came twice or is none of 0 to {world - 1}")
            told[rank] = said["variables"]
            places[rank] = [peer[0], said["port"]]
            lines.append(line)
    problems = list(disagreements(told))
    for line in lines:
        send(line, {"places": places, "problems": problems})
        line.close()
    return places, problems


def disagreements(told: dict[int, dict[str, str]]) -> Any:
    """Sentences about variables that contradict each other."""
    first = told[0]
    same = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NNODES", "LOCAL_WORLD_SIZE")
    for rank, variables in sorted(told.items()):
        local_size = int(variables["LOCAL_WORLD_SIZE"])
        for name in same:
            if variables[name] != first[name]:
                yield f"rank {rank} has {name}={variables[name]}, rank 0 has {first[name]}"
        pairs = {
            "NODE_RANK": str(rank // local_size),
            "GROUP_RANK": str(rank // local_size),
            "LOCAL_RANK": str(rank % local_size),
            "NPROC_PER_NODE": variables["LOCAL_WORLD_SIZE"],
            "PET_NNODES": variables["NNODES"],
            "PET_NODE_RANK": variables["NODE_RANK"],
            "PET_NPROC_PER_NODE": variables["NPROC_PER_NODE"],
            "PET_MASTER_ADDR": variables["MASTER_ADDR"],
            "PET_MASTER_PORT": variables["MASTER_PORT"],
            "WORLD_SIZE": str(int(variables["NNODES"]) * local_size),
        }
        for name, wanted in pairs.items():
            if variables[name] != wanted:
                yield f"rank {rank} has {name}={variables[name]}, {wanted} was expected"


def sum_over_ring(rank: int, world: int, ear: socket.socket, following: Any) -> list[int]:
    """The element-wise sum of all ranks' vectors; each piece travels round the ring twice."""
    vector = [value_of(rank, index) for index in range(LENGTH)]
    if world == 1:
        return vector
    to_next = call(following)
    from_previous, _ = ear.accept()
    from_previous.settimeout(PATIENCE_S)
    cuts = [LENGTH * piece // world for piece in range(world + 1)]
    for step in range(2 * (world - 1)):
        outgoing = (rank - step) % world
        incoming = (rank - step - 1) % world
        send(to_next, vector[cuts[outgoing] : cuts[outgoing + 1]])
        arrived = receive(from_previous)
        where = slice(cuts[incoming], cuts[incoming + 1])
        if step < world - 1:
            arrived = [mine + theirs for mine, theirs in zip(vector[where], arrived, strict=True)]
        vector[where] = arrived
    to_next.close()
    from_previous.close()
    return vector


def call(address: Any) -> socket.socket:
    """Connect, patiently: the other side may start a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            line = socket.create_connection(address, timeout=5)
            line.settimeout(PATIENCE_S)
            return line
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def send(line: socket.socket, message: Any) -> None:
    """One JSON message behind its length."""
    body = json.dumps(message).encode()
    line.sendall(struct.pack("!I", len(body)) + body)


def receive(line: socket.socket) -> Any:
    """The counterpart of `send`."""
    (size,) = struct.unpack("!I", exactly(line, 4))
    return json.loads(exactly(line, size))


def exactly(line: socket.socket, size: int) -> bytes:
    """So many bytes, or ConnectionError."""
    body = b""
    while len(body) < size:
        piece = line.recv(size - len(body))
        if not piece:
            raise ConnectionError("another rank hung up")
        body += piece
    return body


if __name__ == "__main__":
    sys.exit(main())
