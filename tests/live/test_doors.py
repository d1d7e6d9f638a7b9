"""Threads that are lent to requests, and writers that wait for their turn."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.db.utils import OperationalError

from portal.api.nodes.door import NodeDoor
from portal.doors import MOST_KEPT, Doors, Lanes, PortalDoor, Turns
from portal.embedded.sqlite.base import DatabaseWrapper

# The databases of this file are its own.
pytestmark = pytest.mark.once


def connect(path: Path, timeout_s: float = 20) -> DatabaseWrapper:
    settings = {
        "ENGINE": "portal.embedded.sqlite",
        "NAME": str(path),
        "OPTIONS": {"timeout": timeout_s, "transaction_mode": "IMMEDIATE"},
        "AUTOCOMMIT": True,
        "ATOMIC_REQUESTS": False,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": False,
        "TIME_ZONE": None,
        "TEST": {"NAME": None},
    }
    return DatabaseWrapper(settings, alias="turns")


def begin(connection: DatabaseWrapper) -> None:
    connection.ensure_connection()
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


def end(connection: DatabaseWrapper) -> None:
    connection.commit()
    connection.set_autocommit(True)


def add_one(path: Path, times: int, timeout_s: float = 20) -> None:
    connection = connect(path, timeout_s)
    for _ in range(times):
        begin(connection)
        with connection.cursor() as cursor:
            seen = cursor.execute("SELECT n FROM counter").fetchone()[0]
            cursor.execute("UPDATE counter SET n = %s", [seen + 1])
        end(connection)
    connection.close()


@pytest.fixture
def counter(tmp_path, django_db_blocker):
    path = tmp_path / "counter.sqlite3"
    with django_db_blocker.unblock():
        connection = connect(path)
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("CREATE TABLE counter (n INTEGER)")
            cursor.execute("INSERT INTO counter VALUES (0)")
        connection.close()
        yield path


def value(path: Path) -> int:
    connection = connect(path)
    with connection.cursor() as cursor:
        found: int = cursor.execute("SELECT n FROM counter").fetchone()[0]
    connection.close()
    return found


def test_writers_of_many_threads_lose_nothing(counter):
    threads = [threading.Thread(target=add_one, args=(counter, 25)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(counter) == 200


def test_a_writer_that_waits_too_long_is_told_so_and_the_next_gets_its_turn(counter):
    holder = connect(counter)
    begin(holder)
    with pytest.raises(OperationalError, match="database is locked"):
        add_one(counter, 1, timeout_s=0.2)
    end(holder)
    add_one(counter, 1, timeout_s=0.2)
    holder.close()
    assert value(counter) == 1


def test_a_lock_of_another_process_is_waited_for_and_then_refused(counter):
    import sqlite3

    other = sqlite3.connect(counter, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError, match="database is locked"):
        add_one(counter, 1, timeout_s=0.2)
    later = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    later.start()
    add_one(counter, 1)
    later.join()
    other.close()
    assert value(counter) == 1


def test_a_connection_that_is_closed_inside_a_transaction_gives_its_turn_back(counter):
    dropped = connect(counter)
    begin(dropped)
    dropped.in_atomic_block = False
    dropped.close()
    add_one(counter, 1, timeout_s=0.5)
    assert value(counter) == 1


def test_a_rolled_back_transaction_gives_its_turn_back(counter):
    connection = connect(counter)
    begin(connection)
    connection.rollback()
    connection.set_autocommit(True)
    add_one(counter, 1, timeout_s=0.5)
    connection.close()
    assert value(counter) == 1


def test_what_a_waiting_writer_left_behind_is_given_up_without_waiting_for_it(counter):
    holder = connect(counter)
    begin(holder)

    def leave_one_and_write() -> None:
        """A cursor with its statement, in a knot that only the collector undoes; then a wait."""
        waits = connect(counter, timeout_s=20)
        waits.ensure_connection()
        cursor = waits.create_cursor()
        cursor.execute("SELECT 1 UNION SELECT 2")
        knot: list[object] = [cursor]
        knot.append(knot)
        del cursor, knot
        with waits.cursor() as mine:
            mine.execute("UPDATE counter SET n = 7")
        waits.close()

    writer = threading.Thread(target=leave_one_and_write)
    # Only what is new from here on is looked at: all that others left takes seconds.
    gc.freeze()
    gc.disable()
    try:
        writer.start()
        time.sleep(0.3)
        before = time.monotonic()
        gc.collect()
        took_s = time.monotonic() - before
    finally:
        gc.enable()
        gc.unfreeze()
    end(holder)
    writer.join()
    assert took_s < 5, "the collector waited for the writer that waits for this one"
    assert value(counter) == 7


def test_work_at_the_same_time_never_shares_a_thread_and_threads_are_used_again():
    lanes = Lanes()
    at_work: set[int] = set()
    seen: set[int] = set()

    def work() -> None:
        me = threading.get_ident()
        assert me not in at_work
        at_work.add(me)
        seen.add(me)
        time.sleep(0.01)
        at_work.discard(me)

    async def call() -> None:
        with lanes.one():
            await sync_to_async(work)()

    async def rounds() -> None:
        for _ in range(3):
            await asyncio.gather(*(call() for _ in range(5)))

    asyncio.run(rounds())
    assert len(seen) == 5


def test_more_calls_than_have_a_turn_wait_in_the_order_they_came():
    turns, at_work, most, done = Turns(3), set(), [0], []

    async def call(number: int) -> None:
        async with turns.one():
            at_work.add(number)
            most[0] = max(most[0], len(at_work))
            await asyncio.sleep(0.001)
            at_work.discard(number)
            done.append(number)

    async def many() -> None:
        await asyncio.gather(*(call(number) for number in range(20)))

    # Another loop begins with all turns free, whatever became of those of the first.
    for _ in range(2):
        asyncio.run(many())
    assert most == [3] and done == [*range(20), *range(20)]


def test_more_threads_than_are_kept_are_let_go():
    lanes = Lanes()

    async def call() -> None:
        with lanes.one():
            await sync_to_async(time.sleep)(0.05)

    async def many() -> None:
        await asyncio.gather(*(call() for _ in range(MOST_KEPT + 4)))

    before = threading.active_count()
    asyncio.run(many())
    assert len(lanes._free) == MOST_KEPT
    deadline = time.monotonic() + 30
    while threading.active_count() > before + MOST_KEPT and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + MOST_KEPT


def test_what_pages_loaded_is_set_aside_after_the_first_hundred(monkeypatch):
    settled: list[int] = []
    asked: list[str] = []

    async def answer(self, scope, receive, send):
        asked.append(scope["path"])

    monkeypatch.setattr(PortalDoor, "__call__", answer)
    monkeypatch.setattr(NodeDoor, "__call__", answer)
    monkeypatch.setattr("portal.doors.settle", lambda: settled.append(len(asked)))
    doors = Doors("/api/agent/", NodeDoor)

    async def ask(path: str, times: int) -> None:
        for _ in range(times):
            await doors({"path": path}, None, None)

    asyncio.run(ask("/api/agent/sync", 150))
    assert settled == [], "nodes' calls load no pages"
    asyncio.run(ask("/jobs/", 250))
    assert settled == [250]


def test_a_portal_that_has_loaded_looks_for_garbage_rarely():
    look = "import gc, portal.asgi; print(gc.get_freeze_count() > 50_000, *gc.get_threshold())"
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    is_set_aside, youngest, *_ = told.stdout.split()
    assert is_set_aside == "True"
    assert int(youngest) > 10_000
