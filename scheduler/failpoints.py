"""Named points at which a test may end, stop or fail a process; inert without a variable.

`TRAINYARD_FAILPOINTS` names a folder. A process that reaches a point looks there for a file of the
point's name, takes it away (one order is obeyed once, by whoever comes first) and does what it
says: `kill` ends this process as `kill -9` would, `stop SECONDS` sleeps, `fail` raises OSError.
`scheduler/README.md` lists the points; `manage.py torture` uses them. Standard library only: the
agent has such points too.
"""

from __future__ import annotations

import os
import signal
import time

VARIABLE = "TRAINYARD_FAILPOINTS"
_FOLDER = os.environ.get(VARIABLE, "")


def reach(point: str) -> None:
    """Do what was ordered for this point, once; nothing where nobody asked for fail-points."""
    if _FOLDER:
        _obey(point)


def _obey(point: str) -> None:
    order, taken = f"{_FOLDER}/{point}", f"{_FOLDER}/.{point}.{os.getpid()}"
    try:
        os.rename(order, taken)
        with open(taken, encoding="ascii") as source:
            word, _, figure = source.read().strip().partition(" ")
        # What is left tells the harness who was hit, and when.
        os.rename(taken, f"{_FOLDER}/{point}.hit")
    except OSError:
        return
    if word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "stop":
        time.sleep(float(figure or 1))
    elif word == "fail":
        raise OSError(f"fail-point {point}")
