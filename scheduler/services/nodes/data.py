"""What data sets a node says lie on it."""

from __future__ import annotations

from scheduler import events
from scheduler.models import Node
from scheduler.wire.data import DATASET_NAME, MAX_DATASETS, DataReport

_MAX_MIB = 2**40
_MAX_PROBLEM = 500


def store_data(node: Node, report: DataReport) -> None:
    """Keep it with the node, less what makes no sense, which is said.

    Beside what operators tell: where both speak of a data set, the larger copy counts.
    """
    sound = {
        one.name: one.size_mib
        for one in report.copies
        if DATASET_NAME.fullmatch(one.name) and 0 <= one.size_mib <= _MAX_MIB
    }
    kept = sorted(sound.items())[:MAX_DATASETS]
    left_out = len(report.copies) - len(kept)
    words = [report.problem, f"{left_out} were refused by the server" if left_out else ""]
    problem = "; ".join(filter(None, words))[:_MAX_PROBLEM]
    data = {"sets": [list(pair) for pair in kept], "problem": problem}
    if Node.objects.filter(pk=node.pk).exclude(data=data).update(data=data):
        events.wake_scheduler_on_commit()
