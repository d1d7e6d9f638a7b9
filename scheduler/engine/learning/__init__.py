"""What the run times of others tell: how long a job will probably run, and how likely it ends soon.

`run_times.py` knows medians and quantiles of jobs of one kind, `hazards.py` the index that the
order `las` goes by, `chances.py` that index of jobs that are known by their kind.
"""

from scheduler.engine.learning.chances import EndChances, Run
from scheduler.engine.learning.run_times import (
    LEAST_RUNS,
    Kind,
    RunTimes,
    entry_point,
    kind_of,
    kind_of_spec,
)

__all__ = [
    "LEAST_RUNS",
    "EndChances",
    "Kind",
    "Run",
    "RunTimes",
    "entry_point",
    "kind_of",
    "kind_of_spec",
]
