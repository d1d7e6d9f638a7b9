#!/usr/bin/env python3
"""Train a small network so that an interruption leaves no trace in its losses.

A checkpoint holds all that the next step depends on: weights, momentum, the random generator's
state and the number of the step. A stop signal lets the step at hand finish, then saves. The
same seed gives the same losses, however often the training was stopped and resumed.
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
    import numpy as np
except ImportError as missing:
    sys.exit(f"{missing}. This sample needs numpy on the node: pip install numpy")

SEED = 11
STEPS = int(os.environ.get("STEPS", "400"))
STEP_S = float(os.environ.get("STEP_S", "0.02"))
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "50"))
BATCH, RATE, MOMENTUM = 32, 0.02, 0.9
SHAPES = {"w1": (8, 24), "b1": (24,), "w2": (24, 1), "b2": (1,)}

Arrays = dict[str, "np.ndarray"]


def main() -> int:
    """Train the steps that are not done yet; 0 when the last one is, 75 when asked to stop."""
    asked_to_stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda got, _: asked_to_stop.append(got))
    folder = Path(os.environ.get("TRAINYARD_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    weights, speed, dice, done = begin(os.environ.get("TRAINYARD_RESUME_FROM", ""))
    print(f"resumed after step {done}" if done else "a fresh start", flush=True)
    for step in range(done + 1, STEPS + 1):
        loss = train_step(weights, speed, dice)
        print(f"step {step} loss {loss!r}", flush=True)
        time.sleep(STEP_S)
        if asked_to_stop or step % SAVE_EVERY == 0 or step == STEPS:
            save(folder, weights, speed, dice, step)
        if asked_to_stop and step < STEPS:
            print(f"saved step {step} and stopped", flush=True)
            return 75
    print("done", flush=True)
    return 0


def begin(checkpoint: str) -> tuple[Arrays, Arrays, np.random.Generator, int]:
    """Weights, momentum, random generator and steps done: kept ones, or those of the seed."""
    dice = np.random.default_rng(SEED)
    if not checkpoint:
        weights = {name: dice.normal(0, 0.3, shape) for name, shape in SHAPES.items()}
        return weights, {name: np.zeros(shape) for name, shape in SHAPES.items()}, dice, 0
    with np.load(checkpoint, allow_pickle=False) as kept:
        weights = {name: kept[name] for name in SHAPES}
        speed = {name: kept[f"speed-{name}"] for name in SHAPES}
        dice.bit_generator.state = json.loads(str(kept["dice"]))
        return weights, speed, dice, int(kept["step"])


def train_step(weights: Arrays, speed: Arrays, dice: np.random.Generator) -> float:
    """One step of gradient descent with momentum on a fresh batch; gives the batch's mean loss."""
    inputs = dice.normal(size=(BATCH, 8))
    wanted = np.sin(inputs[:, :1]) + 0.5 * inputs[:, 1:2] * inputs[:, 2:3]
    hidden = np.tanh(inputs @ weights["w1"] + weights["b1"])
    error = hidden @ weights["w2"] + weights["b2"] - wanted
    slope = 2 * error / BATCH
    inner = (slope @ weights["w2"].T) * (1 - hidden**2)
    slopes = {
        "w1": inputs.T @ inner,
        "b1": inner.sum(0),
        "w2": hidden.T @ slope,
        "b2": slope.sum(0),
    }
    for name, value in slopes.items():
        speed[name] = MOMENTUM * speed[name] - RATE * value
        weights[name] = weights[name] + speed[name]
    return float((error**2).mean())


def save(
    folder: Path, weights: Arrays, speed: Arrays, dice: np.random.Generator, step: int
) -> None:
    """Write the checkpoint under its own name, then the note that names it, each in one step."""
    name = f"step-{step:06}.npz"
    part = folder / f".{name}.part"
    with open(part, "wb") as target:
        state = json.dumps(dice.bit_generator.state)
        momentum = {f"speed-{key}": value for key, value in speed.items()}
        np.savez(target, step=step, dice=state, **weights, **momentum)
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
    note = folder / ".checkpoint.json.part"
    note.write_text(json.dumps(said))
    os.replace(note, folder / "checkpoint.json")
    for old in sorted(folder.glob("step-*.npz"))[:-2]:
        old.unlink()


if __name__ == "__main__":
    sys.exit(main())
