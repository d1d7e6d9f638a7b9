"""What made an attempt fail: class, evidence, and what to do. Pure: standard library only.

One table of signatures (`signatures.py`), one reader of log text (`text.py`), one judge
(`judge.py`). What a program prints can change what people are told, never who pays: only what
the node's agent reports does (decision "Logs advise, nodes decide").
"""

from scheduler.triage.judge import advice_of, judge
from scheduler.triage.model import Evidence, Failure, Finding, LogTail
from scheduler.triage.text import MAX_TAIL_BYTES, read_tail

__all__ = [
    "MAX_TAIL_BYTES",
    "Evidence",
    "Failure",
    "Finding",
    "LogTail",
    "advice_of",
    "judge",
    "read_tail",
]
