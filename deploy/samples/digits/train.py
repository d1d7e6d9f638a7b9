#!/usr/bin/env python3
"""Train a classifier on scikit-learn's handwritten digits, epoch by epoch.

The data set (1797 small pictures) comes with the package: nothing is fetched. Each epoch ends with
a checkpoint; a second attempt goes on from the last one. The same seed gives the same accuracy,
also when the training was interrupted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

try:
    import joblib
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier
except ImportError as missing:
    sys.exit(f"{missing}. This sample needs scikit-learn on the node: pip install scikit-learn")

SEED = 7
BATCH = 64
GREEN, CYAN, DIM, BOLD, PLAIN = "\033[32m", "\033[36m", "\033[2m", "\033[1m", "\033[0m"


def main() -> int:
    """Train all epochs that are not done yet; exit 0 when the last one is."""
    options = parse_options()
    folder = Path(os.environ.get("TRAINYARD_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    pixels, digits = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        pixels / 16.0, digits, test_size=0.25, random_state=SEED, stratify=digits
    )
    model, done = resume(os.environ.get("TRAINYARD_RESUME_FROM", ""))
    device = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
    # The page folds what stands between these two marks; the download keeps them.
    print("::group::what it works with")
    print(f"{BOLD}digits{PLAIN}: {len(train_x)} pictures to learn from, {len(test_x)} to test on")
    print(f"granted device: {device} {DIM}(this small model computes on the CPU){PLAIN}")
    print("::endgroup::")
    print(f"resumed after epoch {done}" if done else "a fresh start", flush=True)
    accuracy = float(model.score(test_x, test_y)) if done else 0.0
    for epoch in range(done + 1, options.epochs + 1):
        began = time.monotonic()
        loss = train_epoch(model, train_x, train_y, epoch)
        accuracy = float(model.score(test_x, test_y))
        save(model, folder, epoch, accuracy)
        report(epoch, options.epochs, loss, accuracy)
        time.sleep(max(0.0, options.epoch_s - (time.monotonic() - began)))
    print(f"final accuracy: {accuracy:.4f}", flush=True)
    keep_result(model, accuracy)
    return 0


def parse_options() -> argparse.Namespace:
    """The command line; the defaults make a job of a few seconds that can be watched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=int(os.environ.get("EPOCHS", "20")))
    parser.add_argument(
        "--epoch-s",
        type=float,
        default=float(os.environ.get("EPOCH_S", "0.4")),
        help="least seconds of an epoch, so that progress can be followed (default %(default)s)",
    )
    return parser.parse_args()


def resume(checkpoint: str) -> tuple[MLPClassifier, int]:
    """The model and how many epochs it has seen: from the checkpoint when there is one."""
    if checkpoint and Path(checkpoint).is_file():
        # Written by an earlier attempt of this very job, in a folder only the job can write.
        kept = joblib.load(checkpoint)
        return kept["model"], int(kept["epoch"])
    return MLPClassifier(hidden_layer_sizes=(48,), learning_rate_init=2e-3, random_state=SEED), 0


def train_epoch(model: MLPClassifier, pixels: np.ndarray, digits: np.ndarray, epoch: int) -> float:
    """One pass in an order that depends on the epoch's number alone; gives the mean loss."""
    order = np.random.default_rng(SEED + epoch).permutation(len(pixels))
    losses = []
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        model.partial_fit(pixels[chosen], digits[chosen], classes=np.arange(10))
        losses.append(model.loss_)
    return float(np.mean(losses))


def save(model: MLPClassifier, folder: Path, epoch: int, accuracy: float) -> None:
    """Write the checkpoint, then the note that names it, each in one step."""
    name = f"epoch-{epoch:03}.joblib"
    joblib.dump({"model": model, "epoch": epoch}, folder / f"{name}.part")
    os.replace(folder / f"{name}.part", folder / name)
    content = (folder / name).read_bytes()
    note = folder / "checkpoint.json.part"
    said = {
        "path": name,
        "step": epoch,
        "bytes": len(content),
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "accuracy": accuracy,
    }
    note.write_text(json.dumps(said))
    os.replace(note, folder / "checkpoint.json")
    for old in folder.glob("epoch-*.joblib"):
        if old.name < f"epoch-{epoch - 2:03}.joblib":
            old.unlink()


def keep_result(model: MLPClassifier, accuracy: float) -> None:
    """What is left in this folder at the end is kept: the page's tab Files has it."""
    folder = Path(os.environ.get("TRAINYARD_OUTPUT_DIR") or "outputs")
    folder.mkdir(parents=True, exist_ok=True)
    joblib.dump(model, folder / "digits.joblib")
    said = {"accuracy": accuracy, "epochs": model.n_iter_, "seed": SEED}
    (folder / "result.json").write_text(json.dumps(said))


def report(epoch: int, epochs: int, loss: float, accuracy: float) -> None:
    """One coloured line of progress."""
    filled = round(24 * epoch / epochs)
    bar = f"{CYAN}{'█' * filled}{DIM}{'░' * (24 - filled)}{PLAIN}"
    print(
        f"epoch {epoch:>2}/{epochs} {bar} loss {loss:.4f}  accuracy {GREEN}{accuracy:.4f}{PLAIN}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
