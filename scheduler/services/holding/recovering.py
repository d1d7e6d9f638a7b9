"""The pause before a job whose storage failed is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from scheduler.conf import load_conf
from scheduler.models import Attempt
from scheduler.states import FailureClass

# The pause grows up to sixteen times the first one.
_DOUBLINGS = 4


def storage_pause(
    attempt: Attempt, facts: Mapping[str, object], *, is_confirmed: bool
) -> dict[str, object]:
    """What an attempt's end says of the pause after it: `pause_s`, whole seconds, and `pause_why`.

    Twice as long with each failure of this kind in a row; empty where an operator wants none.
    `is_confirmed`: a node says that storage failed, not only what the program printed.
    """
    first_s = load_conf().storage_pause_s
    if not first_s:
        return {}
    before = attempt.job.attempts.filter(number__lt=attempt.number).order_by("-number")
    latest = before.values_list("failure", flat=True)[: 2 * _DOUBLINGS]
    times = 1 + sum(1 for _ in takewhile(lambda one: one == FailureClass.INFRA_STORAGE, latest))
    again = f", {times} times in a row" if times > 1 else ""
    where = f"Storage failed on node {facts.get('node', '?')}"
    why = f"{where if is_confirmed else 'Its log tells of failing storage'}{again}"
    return {"pause_s": first_s << min(times - 1, _DOUBLINGS), "pause_why": why}
