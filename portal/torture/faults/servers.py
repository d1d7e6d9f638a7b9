"""Harm to the control plane: portal and schedulers (faults 7 to 12)."""

from __future__ import annotations

import contextlib
import subprocess

import psycopg

from portal.embedded.places import ROOT
from portal.embedded.programs import BACKGROUND, BEAT, BROKER, SCHEDULER, WEB, python
from portal.torture.faults.hand import Fault, Hand
from portal.torture.yard import SECOND

_SCHEDULER_LEASE_S = 6.0
# Where all servers were killed just now, a busy machine needs as long to bring a leader back.
_LEADER_TRIES = 30
# Whoever signed in has to do it again after twelve hours, and tokens end after a day.
_MOST_STEPS = 10
SCHEDULER_POINTS = tuple(
    f"scheduler.{word}"
    for word in "locked moved attempts-written charged placed recorded committed".split()
)
PORTAL_POINTS = tuple(
    f"portal.{word}"
    for word in "submitted log-stored log-committed reports-taken reports-committed".split()
)
SCHEDULE_POINTS = ("schedules.submitted", "schedules.committed")
# Starting included, on a machine where everything takes long.
_RUSHES_FOR_S = 90.0
_KILLED = -9


def _kill(hand: Hand, program: str) -> str:
    return program if hand.kill(hand.yard.pid_of(program)) else ""


def kill_web(hand: Hand) -> str:
    """7: the portal's own process dies."""
    return _kill(hand, WEB)


def kill_web_at_a_point(hand: Hand) -> str:
    """9: it dies before it could answer for what it has, or has not, committed."""
    point = hand.dice.choice(PORTAL_POINTS)
    return point if hand.order(point) else ""


def kill_scheduler(hand: Hand) -> str:
    """11: the one at work or the one that waits."""
    return _kill(hand, hand.dice.choice((SCHEDULER, SECOND)))


def kill_scheduler_at_a_point(hand: Hand) -> str:
    """11: at each step between lock and notify."""
    point = hand.dice.choice(SCHEDULER_POINTS)
    return point if hand.order(point) else ""


def lead_twice(hand: Hand) -> str:
    """10: the leader sleeps past its lease, another takes over, and the first wakes up."""
    # Another fault may have killed the holder just now; its successor comes when the lease ends.
    for _ in range(_LEADER_TRIES):
        pid = _leader(hand)
        if pid is not None:
            with hand.stopping(pid) as reached:
                if reached:
                    hand.nap(_SCHEDULER_LEASE_S + hand.dice.uniform(1.0, 3.0))
                    return "the leader"
        if hand.over.is_set():
            break
        hand.nap(1.0)
    return ""


def _leader(hand: Hand) -> int | None:
    try:
        with psycopg.connect(hand.yard.database, connect_timeout=3) as line:
            row = line.execute("SELECT holder FROM scheduler_schedulerlease").fetchone()
    except psycopg.Error:
        return None
    pid = str(row[0]).rpartition(":")[2] if row else ""
    return int(pid) if pid.isdigit() else None


def kill_all_servers(hand: Hand) -> str:
    """8: portal, schedulers, workers and broker at once."""
    hit = [_kill(hand, name) for name in (WEB, SCHEDULER, SECOND, BACKGROUND, BEAT, BROKER)]
    return "all servers" if any(hit) else ""


def kill_at_a_due_time(hand: Hand) -> str:
    """17: who carries a schedule out dies between the submit and its commit, or just after it."""
    point = hand.dice.choice(SCHEDULE_POINTS)
    return point if hand.order(point) else ""


def rush_to_schedules(hand: Hand) -> str:
    """10: beside the worker another program looks what is due, from three threads at once."""
    words = hand.yard.under(python("-m", "portal.torture.faults.looking"))
    try:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env=dict(hand.yard.environment()),
            capture_output=True,
            timeout=_RUSHES_FOR_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "due times"
    return "due times" if done.returncode in (0, _KILLED) else ""


def stop_time(hand: Hand) -> str:
    """Nobody looks at the clock for a minute, divided: no scheduler, no worker, and nothing that
    wakes them; moments and waits come to their end meanwhile."""
    usual_s = hand.yard.timers.of(60, 5)
    with contextlib.ExitStack() as all_of_them:
        names = [SCHEDULER, *([SECOND] if hand.yard.with_standby else [])]
        names += [BACKGROUND, BEAT] if hand.yard.with_helpers else []
        hit = [all_of_them.enter_context(hand.stopping(hand.yard.pid_of(name))) for name in names]
        hand.nap(usual_s * hand.dice.choice((1.0, 1.5, 3.0)))
    return "all who look at the clock" if any(hit) else ""


def put_clocks_forward(hand: Hand) -> str:
    """12: all clocks of the installation are an hour later from one moment to the next."""
    if len(hand.yard.steps) >= _MOST_STEPS:
        return ""
    hand.yard.put_clocks_forward(3600.0)
    hand.nap(2.0)
    return "all clocks"


FAULTS = (
    Fault("web-kill", 7, kill_web),
    Fault("web-point", 9, kill_web_at_a_point, "web-point"),
    Fault("scheduler-kill", 11, kill_scheduler),
    Fault("scheduler-point", 11, kill_scheduler_at_a_point, "scheduler-point"),
    Fault("two-leaders", 10, lead_twice, "leader"),
    Fault("schedule-point", 17, kill_at_a_due_time, "schedule-point"),
    Fault("schedule-rush", 10, rush_to_schedules, "schedule-rush"),
    Fault("time-stopped", 11, stop_time, "leader"),
    Fault("clock-forward", 12, put_clocks_forward, "clock"),
    Fault("all-servers", 8, kill_all_servers, "servers"),
)
