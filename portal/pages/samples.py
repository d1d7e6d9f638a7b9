"""The sample job that the composer offers to newcomers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from portal.templatetags.sample import TAKES

SAMPLE = "digits-sample"
DIGITS = Path(__file__).resolve().parents[2] / "deploy" / "samples" / "digits" / "train.py"


def sample_document(project: str, pool: str) -> dict[str, Any]:
    """Training on handwritten digits as an inline script: nothing has to lie on the node."""
    return {
        "name": SAMPLE,
        "description": f"Learns handwritten digits, epoch by epoch, in {TAKES}.",
        "project": project,
        "pool": pool,
        "script": DIGITS.read_text(encoding="utf-8"),
        "time_limit": 600,
        "retries": 1,
    }
