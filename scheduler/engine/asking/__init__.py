"""Questions about one job, answered by deciding: nothing is stored and nothing is guessed.

`blocking.py` lists everything that stands in its way, `counterfactual.py` what would help.
"""

from scheduler.engine.asking.blocking import Blocking, CheckResult, Holder, blocking_facts
from scheduler.engine.asking.counterfactual import Answer, Option, what_if

__all__ = [
    "Answer",
    "Blocking",
    "CheckResult",
    "Holder",
    "Option",
    "blocking_facts",
    "what_if",
]
