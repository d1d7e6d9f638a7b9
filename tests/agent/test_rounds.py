"""What is quiet needs no thread of its own, and what takes a moment to start shares one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.agent.client import Client
from scheduler.agent.logs import LogShipper
from scheduler.agent.node.accepting import start_all
from scheduler.agent.node.rounds import Rounds
from scheduler.agent.runner import Attempt
from scheduler.agent.spool import Slot, Spool
from scheduler.wire.messages import Code, LogAck
from tests.agent.conftest import assignment, wait_until


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    made = Rounds()
    yield made
    made.close()


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Spool(tmp_path / "spool").open(assignment())


def test_all_are_asked_until_they_want_no_more(rounds: Rounds) -> None:
    asked = {"often": 0, "twice": 0, "badly": 0}

    def look(name: str, most: int) -> bool:
        asked[name] += 1
        if name == "badly":
            raise OSError("a look that fails")
        return asked[name] < most

    for name, most in (("badly", 9), ("twice", 2), ("often", 10_000)):
        rounds.add(lambda name=name, most=most: look(name, most))  # type: ignore[misc]
    wait_until(lambda: asked["often"] >= 5 and asked["badly"] >= 5)
    assert asked["twice"] == 2


def test_one_that_comes_when_none_was_left_is_asked_too(rounds: Rounds) -> None:
    for _ in range(2):
        seen = threading.Event()
        rounds.add(lambda seen=seen: bool(seen.set()))  # type: ignore[misc]
        assert seen.wait(10)


def test_a_stream_has_a_thread_once_it_says_something(rounds: Rounds, slot: Slot) -> None:
    sent: list[bytes] = []

    def send_log(fence: int, rank: int, offset: int, chunk: bytes) -> LogAck:
        sent.append(chunk)
        return LogAck(offset + len(chunk))

    client = cast(Client, SimpleNamespace(send_log=send_log))
    shipper = LogShipper(slot, client, 0.1)
    before = threading.active_count()
    assert shipper.look() and shipper.look()
    shipper.nudge()
    assert threading.active_count() == before
    rounds.add(shipper.look)
    slot.log_path.write_bytes(b"a word")
    wait_until(lambda: sent == [b"a word"])
    assert not shipper.look(), "its own thread looks from now on"
    with open(slot.log_path, "ab") as log:
        log.write(b", another")
    shipper.nudge()
    wait_until(lambda: b"".join(sent) == b"a word, another")
    shipper.stop()


def test_a_stream_that_is_not_wanted_is_not_looked_at(slot: Slot) -> None:
    shipper = LogShipper(slot, cast(Client, None), 0.1)
    shipper.stop()
    slot.log_path.write_bytes(b"late")
    assert not shipper.look()


def test_those_that_take_a_moment_share_a_thread(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    orders = {
        "one": assignment(),
        "two": assignment(),
        "fetches": assignment(code=Code(git_url="https://code.example/a", git_ref="main")),
        "asks": assignment(secrets=("key",)),
        "touches": assignment(checkpoint_dir="/shared"),
        "reads": assignment(attempt_number=2),
    }
    attempts = {name: Attempt(spool.open(order)) for name, order in orders.items()}
    begun: dict[str, str] = {}
    done: list[str] = []
    for name, attempt in attempts.items():
        cast(Any, attempt).begin = lambda *_, name=name: begun.update(
            {name: threading.current_thread().name}
        )
    start_all(list(attempts.values()), cast(Any, str), cast(Any, None), lambda: done.append(""))
    wait_until(lambda: len(begun) == 6 and len(done) == 5)
    assert begun["one"] == begun["two"] and len(set(begun.values())) == 5
