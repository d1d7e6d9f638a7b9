#!/usr/bin/env python3
"""Train a small network with torchrun on any number of nodes, with the losses of a run on one.

It trains on GPUs where PyTorch sees some (NCCL), else on the processor (gloo).
Every step draws one batch for all ranks, of which each takes its share; DistributedDataParallel
averages the gradients. So the losses are those of an uninterrupted run on one node, whatever
number of nodes a resumed attempt has. A checkpoint holds weights, momentum and the step; rank 0
writes it into TRAINYARD_CHECKPOINT_DIR, which must be shared between the nodes.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    sys.exit(f"{missing}. This sample needs PyTorch on the node: apt-get install python3-torch")

SEED = 11
STEPS = int(os.environ.get("STEPS", "400"))
STEP_S = float(os.environ.get("STEP_S", "0.02"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "10"))
# One to six ranks divide it, so every rank's share is equal.
BATCH = 60


def main() -> int:
    """Train the steps that are not done yet; 0 when the last one is, 75 when asked to stop."""
    asked_to_stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda got, _: asked_to_stop.append(got))
    torch.set_num_threads(1)
    device, meets = place()
    dist.init_process_group(meets)
    rank, size = dist.get_rank(), dist.get_world_size()
    if BATCH % size:
        sys.exit(f"{size} ranks cannot share a batch of {BATCH}; take 1 to 6 ranks")
    torch.manual_seed(SEED)
    layers = [torch.nn.Linear(8, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).double().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    done = resume(os.environ.get("TRAINYARD_RESUME_FROM", ""), device, model, optimizer)
    begins = f"resumed after step {done}" if done else "a fresh start"
    print(f"rank {rank} of {size} on {device} with {meets}: {begins}", flush=True)
    for step in range(done + 1, STEPS + 1):
        loss = train_step(model, optimizer, step, device, range(rank, BATCH, size))
        # All ranks stop after the same step, whichever of them was asked first.
        news = torch.tensor([loss, bool(asked_to_stop)], dtype=torch.float64, device=device)
        dist.all_reduce(news)
        stops = bool(news[1] > 0)
        if rank == 0:
            print(f"step {step} loss {float(news[0]) / size!r}", flush=True)
            if stops or step % SAVE_EVERY == 0 or step == STEPS:
                save(model, optimizer, step)
        if stops and step < STEPS:
            return 75
        time.sleep(STEP_S)
    dist.barrier()
    print(f"rank {rank} of {size}: done", flush=True)
    dist.destroy_process_group()
    return 0


def place() -> tuple[torch.device, str]:
    """Where this rank trains, and the backend over which ranks meet there."""
    if not torch.cuda.is_available():
        return torch.device("cpu"), "gloo"
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device, "nccl"


def resume(
    checkpoint: str,
    device: torch.device,
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
) -> int:
    """Load what was kept; the number of steps that are done."""
    if not checkpoint:
        return 0
    # The job's own file. `weights_only` of torch 1.13 cannot read the numbers of an optimizer.
    kept = torch.load(checkpoint, map_location=device)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return int(kept["step"])


def train_step(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    step: int,
    device: torch.device,
    share: range,
) -> float:
    """One step on this rank's share of the step's batch; gives the share's mean loss."""
    dice = torch.Generator().manual_seed(SEED * 1_000_003 + step)
    drawn = torch.randn(BATCH, 8, generator=dice, dtype=torch.float64)
    inputs = drawn[share.start :: share.step].to(device)
    wanted = torch.sin(inputs[:, :1]) + 0.5 * inputs[:, 1:2] * inputs[:, 2:3]
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    return float(loss)


def save(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write the checkpoint under its own name, then the note that names it, each in one step."""
    folder = Path(os.environ.get("TRAINYARD_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    attempt = os.environ.get("TRAINYARD_ATTEMPT", "1")
    name = f"step-{step:06}-of-attempt-{attempt}.pt"
    part = folder / f".{name}.part"
    with open(part, "wb") as target:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, target)
        target.flush()
        os.fsync(target.fileno())
    content = part.read_bytes()
    os.replace(part, folder / name)
    said = {
        "path": name,
        "step": step,
        "bytes": len(content),
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
    }
    note = folder / f".checkpoint-of-attempt-{attempt}.part"
    note.write_text(json.dumps(said))
    os.replace(note, folder / "checkpoint.json")


if __name__ == "__main__":
    sys.exit(main())
