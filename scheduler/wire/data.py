"""What a node says about data that lies on it for jobs to read."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Of data sets, as jobs name them.
DATASET_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
MAX_DATASETS = 200


@dataclass(frozen=True, slots=True)
class DataCopy:
    """How much of a data set lies there."""

    name: str
    size_mib: int


@dataclass(frozen=True, slots=True)
class DataReport:
    """All that lies there, by name; `problem`: what is left out and why, empty if nothing is."""

    copies: tuple[DataCopy, ...] = ()
    problem: str = ""
