"""Programs of a node that are stopped, and go on afterwards (fault 3).

Stopped together for longer than the grace nobody could end the programs (record 170): with one
of the two that hold deadlines alive, they end in time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from portal.torture.faults.hand import Fault, Hand
from portal.torture.program import STOP_GRACE_S
from portal.torture.proxy import Weather
from scheduler.agent.runtime import processes

# Of the slack that the server leaves beyond the grace, what it takes a node to wake and to kill.
_WAKING_S = 3.0


def _agent(hand: Hand, node: str) -> int:
    return hand.yard.pid_of(hand.yard.node_program(node))


def stop_agent(hand: Hand) -> str:
    """A zombie that wakes up; sometimes long after its attempts were given up."""
    timers = hand.yard.timers
    with hand.alone(hand.node()) as node:
        if not node:
            return ""
        with hand.stopping(_agent(hand, node)) as reached:
            lengths = (1.0, 2.0, 5.0, timers.lease_s * 2.0, timers.long_after_s)
            hand.nap(hand.dice.choice(lengths))
    return node if reached else ""


def stop_supervisor(hand: Hand) -> str:
    """For a while nobody guards a program; sometimes for longer than any deadline."""
    found = hand.await_guarded()
    with hand.alone(found[0] if found else "") as node:
        if not node or found is None:
            return ""
        with hand.stopping(found[2].pid) as reached:
            lengths = (hand.dice.uniform(1.0, 5.0),) * 3 + (hand.yard.timers.long_after_s,)
            hand.nap(hand.dice.choice(lengths))
    return node if reached else ""


def stop_supervisors_of_a_lost_node(hand: Hand) -> str:
    """Nobody guards the programs of a node that is cut off: until others may begin again."""
    with hand.alone(hand.node_at_work()) as node:
        if not node:
            return ""
        guards = [guard.pid for where, _, guard in hand.guarded() if where == node]
        cut_off = hand.weather(hand.proxy(node), weather=Weather(block="both"))
        with cut_off, _stopped(hand, guards):
            hand.nap(hand.yard.timers.lost_after_s + STOP_GRACE_S + 3)
    return node


def stop_node(hand: Hand) -> str:
    """A host that stands still with all that runs on it, for less than the server's slack."""
    timers = hand.yard.timers
    with hand.alone(hand.node_at_work()) as node:
        if not node:
            return ""
        guards = [guard.pid for where, _, guard in hand.guarded() if where == node]
        below = [pid for guard in guards for pid in processes.descendants(guard)]
        with _stopped(hand, [*guards, *below]), hand.stopping(_agent(hand, node)) as reached:
            hand.nap(hand.dice.uniform(1.0, timers.lease_s + timers.slack_s - _WAKING_S))
    return node if reached else ""


@contextlib.contextmanager
def _stopped(hand: Hand, pids: list[int]) -> Iterator[None]:
    with contextlib.ExitStack() as all_of_them:
        for pid in pids:
            all_of_them.enter_context(hand.stopping(pid))
        yield


FAULTS = (
    Fault("agent-stop", 3, stop_agent),
    Fault("supervisor-stop", 3, stop_supervisor),
    Fault("guards-stop", 3, stop_supervisors_of_a_lost_node),
    Fault("node-stop", 3, stop_node),
)
