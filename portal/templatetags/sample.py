"""What pages say of the sample job. Pure functions; `portal.py` makes them tags."""

from __future__ import annotations

# From its start to its end; `deploy/samples/digits/train.py` has it from its epochs.
TAKES = "about ten seconds"


def sample_sentence() -> str:
    """`{% sample_sentence %}`: what it does and how long it takes."""
    return f"The sample trains on handwritten digits and ends in {TAKES}."
