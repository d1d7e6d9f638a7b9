"""Questions about one job, answered by deciding: nothing is stored and nothing is guessed.

`blocking.py` lists everything that stands in its way, `counterfactual.py` what would help
of the changes in `edits.py`, `impact.py` whom a change would delay, and who would start sooner.
"""

from scheduler.engine.asking.blocking import Blocking, CheckResult, Holder, blocking_facts
from scheduler.engine.asking.counterfactual import Answer, Option, what_if
from scheduler.engine.asking.impact import (
    Impact,
    Start,
    impact_of,
    with_cost,
    with_limit,
    with_most,
    with_places,
    with_tier,
)

__all__ = [
    "Answer",
    "Blocking",
    "CheckResult",
    "Holder",
    "Impact",
    "Option",
    "Start",
    "blocking_facts",
    "impact_of",
    "what_if",
    "with_cost",
    "with_limit",
    "with_most",
    "with_places",
    "with_tier",
]
