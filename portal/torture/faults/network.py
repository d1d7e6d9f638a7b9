"""Harm on the way between nodes, people and the portal (faults 5, 6, 7 and 9)."""

from __future__ import annotations

import psycopg

from portal.embedded.programs import WEB
from portal.torture.faults.hand import Fault, Hand
from portal.torture.program import STOP_GRACE_S
from portal.torture.proxy import Weather

# The node of each session that people may work in now.
_SESSIONS = """SELECT node.name FROM scheduler_session session
JOIN scheduler_attempt attempt ON attempt.job_id = session.job_id AND attempt.state = 'running'
JOIN scheduler_placement placement ON placement.attempt_id = attempt.id
JOIN scheduler_node node ON node.id = placement.node_id"""
_TRIES, _EACH_S = 20, 0.5


def partition(hand: Hand) -> str:
    """5: a node and the portal do not hear each other; now and then for longer than its grace."""
    node, timers = hand.node_at_work(), hand.yard.timers
    lengths = (2.0, 4.0, timers.lease_s + 3.0, timers.lost_after_s + STOP_GRACE_S + 3)
    with hand.weather(hand.proxy(node), weather=Weather(block="both")):
        hand.nap(hand.dice.choice(lengths))
    return node


def silence(hand: Hand) -> str:
    """5: one that is at work is not heard for nearly its grace, while others have room."""
    node = hand.node_at_work()
    with hand.weather(hand.proxy(node), weather=Weather(block="both")):
        hand.nap(min(13.5, 0.9 * hand.yard.timers.grace_s))
    return node


def one_way(hand: Hand) -> str:
    """5: half open: one side believes that it is heard."""
    node = hand.node()
    with hand.weather(hand.proxy(node), weather=Weather(block=hand.dice.choice(("in", "out")))):
        hand.nap(hand.dice.uniform(2.0, 6.0))
    return node


def flap(hand: Hand) -> str:
    """5: there and gone once a second."""
    node = hand.node()
    for _ in range(4):
        with hand.weather(hand.proxy(node), weather=Weather(block="both")):
            hand.nap(0.5)
        hand.nap(0.5)
    return node


def slow_down(hand: Hand) -> str:
    """6: everything takes long, and a fifth never arrives."""
    node = hand.node()
    rain = Weather(delay_s=hand.dice.uniform(0.3, 2.0), lose=0.2)
    with hand.weather(hand.proxy(node), weather=rain):
        hand.nap(5.0)
    return node


def scramble(hand: Hand) -> str:
    """6: requests arrive twice, late, and one after the other that was sent before."""
    node = hand.node()
    rain = Weather(repeat=0.4, reorder=0.4, lose=0.1)
    with hand.weather(hand.proxy(node), weather=rain):
        hand.nap(5.0)
    return node


def refuse_all(hand: Hand) -> str:
    """7: whoever asks is told 500, 502, 503 or 429."""
    proxies = tuple(hand.yard.proxy_of.values())
    with hand.weather(*proxies, hand.api_proxy, weather=Weather(refuse=1.0)):
        hand.nap(hand.dice.uniform(1.0, 4.0))
    return "all"


def cut_answers(hand: Hand) -> str:
    """9: the portal has done its work, and the node never hears of it."""
    node = hand.node()
    with hand.weather(hand.proxy(node), weather=Weather(cut=0.5)):
        hand.nap(4.0)
    return node


def cut_submits(hand: Hand) -> str:
    """9: the same for those who submit."""
    with hand.weather(hand.api_proxy, weather=Weather(cut=0.6, repeat=0.3)):
        hand.nap(4.0)
    return "people"


def cut_tunnel(hand: Hand) -> str:
    """9: somebody works in a session whose tunnel is cut, whose agent dies, or the portal does."""
    for _ in range(_TRIES):
        nodes = _with_sessions(hand)
        if nodes or hand.over.is_set():
            break
        hand.nap(_EACH_S)
    if not nodes:
        return ""
    node, program = hand.dice.choice(nodes), hand.dice.choice(("", "agent", WEB))
    if program:
        name = WEB if program == WEB else hand.yard.node_program(node)
        return node if hand.kill(hand.yard.pid_of(name)) else ""
    with hand.weather(hand.proxy(node), weather=Weather(cut=1.0)):
        hand.nap(hand.dice.uniform(1.0, 3.0))
    return node


def _with_sessions(hand: Hand) -> list[str]:
    try:
        with psycopg.connect(hand.yard.database, connect_timeout=3) as line:
            names = {str(name) for (name,) in line.execute(_SESSIONS)}
    except psycopg.Error:
        return []
    return sorted(names & set(hand.yard.nodes))


FAULTS = (
    Fault("tunnel-cut", 9, cut_tunnel, "tunnel"),
    Fault("partition", 5, partition),
    Fault("silence", 5, silence, "silence"),
    Fault("one-way", 5, one_way),
    Fault("flapping", 5, flap),
    Fault("slow", 6, slow_down),
    Fault("scrambled", 6, scramble),
    Fault("refused", 7, refuse_all, "refuse"),
    Fault("cut-answers", 9, cut_answers),
    Fault("cut-submits", 9, cut_submits, "people"),
)
