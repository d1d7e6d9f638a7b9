"""Harm to the database itself (fault 8)."""

from __future__ import annotations

import psycopg

from portal.torture.faults.hand import Fault, Hand

# What is done to everybody's connections is not done to these.
_UNHARMED = "-c default_transaction_read_only=off -c statement_timeout=0"
_TRIES = 20
_MOST_LOCKED = 30
_FAILOVER_S = 30.0
_CUT_OFF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


def _connect(hand: Hand) -> psycopg.Connection:
    url = hand.yard.database
    return psycopg.connect(url, connect_timeout=3, autocommit=True, options=_UNHARMED)


def drop_connections(hand: Hand) -> str:
    """8: every connection to the database is cut, whatever it was doing."""
    try:
        with _connect(hand) as line:
            line.execute(_CUT_OFF)
    except psycopg.Error:
        return ""
    return "the database"


def crash_database(hand: Hand) -> str:
    """8: all its processes die; it is away for a moment and recovers."""
    return _away(hand, hand.dice.uniform(0.0, 3.0))


def fail_over(hand: Hand) -> str:
    """8: it is away for as long as another takes to step in, but not longer than jobs bear it."""
    return _away(hand, min(_FAILOVER_S, 0.25 * hand.yard.timers.grace_s))


def _away(hand: Hand, seconds: float) -> str:
    hand.yard.cluster.crash()
    try:
        hand.nap(seconds)
    finally:
        hand.yard.cluster.start()
    return "the database"


def forbid_writes(hand: Hand) -> str:
    """8: it answers and takes no writes, as a replica does that nobody has promoted."""
    return _while_set(hand, "default_transaction_read_only", "on", hand.dice.uniform(2.0, 6.0))


def hurry(hand: Hand) -> str:
    """8: no statement may take longer than a few milliseconds."""
    least_ms = hand.dice.choice((2, 5, 20))
    return _while_set(hand, "statement_timeout", f"{least_ms}", hand.dice.uniform(2.0, 5.0))


def serialise(hand: Hand) -> str:
    """8: transactions that meet are refused, where usually one waits for the other."""
    level = "'serializable'"
    return _while_set(hand, "default_transaction_isolation", level, hand.dice.uniform(2.0, 6.0))


def _while_set(hand: Hand, name: str, value: str, seconds: float) -> str:
    """Everybody is connected anew with this setting, and again without it."""
    if not _set(hand, f"SET {name} TO {value}"):
        return ""
    hand.nap(seconds)
    for _ in range(_TRIES):
        if _set(hand, f"RESET {name}"):
            return "the database"
        hand.yard.pause(0.5)
    raise RuntimeError(f"{name} could not be reset")


def _set(hand: Hand, what: str) -> bool:
    name = hand.yard.database.rpartition("/")[2]
    try:
        with _connect(hand) as line:
            line.execute(f'ALTER DATABASE "{name}" {what}')
            line.execute(_CUT_OFF)
    except psycopg.Error:
        return False
    return True


def cross_locks(hand: Hand) -> str:
    """8: somebody locks jobs, then the lease and the nodes: against the order of all others.

    They look for a deadlock sooner than this one does, so that it is them who are refused.
    """
    try:
        with _connect(hand) as line, line.transaction():
            line.execute("SET LOCAL deadlock_timeout = '6s'")
            live = line.execute(
                "SELECT id FROM scheduler_job WHERE ended_at IS NULL ORDER BY id DESC LIMIT %s",
                [_MOST_LOCKED],
            ).fetchall()
            for (job,) in live:
                line.execute("SELECT 1 FROM scheduler_job WHERE id = %s FOR UPDATE", [job])
                hand.nap(0.03)
            line.execute("SELECT 1 FROM scheduler_schedulerlease FOR UPDATE")
            line.execute("SELECT 1 FROM scheduler_node ORDER BY id DESC FOR UPDATE")
            hand.nap(0.5)
    except psycopg.Error:
        # Refused itself, or cut off by another fault: it was there.
        return "the database"
    return "the database" if live else ""


FAULTS = (
    Fault("database-dropped", 8, drop_connections),
    Fault("database-crash", 8, crash_database, "database"),
    Fault("database-failover", 8, fail_over, "database"),
    Fault("database-read-only", 8, forbid_writes, "database"),
    Fault("database-hurried", 8, hurry, "database"),
    Fault("database-serial", 8, serialise, "database"),
    Fault("deadlock", 8, cross_locks, "database"),
)
