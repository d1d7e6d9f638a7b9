"""Logs arrive whole, in order and once, whatever the connection does."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.agent.client import Client, Refused, ServerAway
from scheduler.agent.logs import LogShipper
from scheduler.agent.runtime import capture
from scheduler.agent.runtime.capture import LogCapture
from scheduler.agent.runtime.connections import NoAnswer
from scheduler.states import AttemptState, EndReason
from scheduler.wire.messages import MAX_LOG_CHUNK, LogAck, Refusal
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal

STEPS = "for i in 1 2 3 4 5 6; do echo step $i; sleep 0.2; done"
WHOLE = "".join(f"step {number}\n" for number in range(1, 7))


def test_a_lost_acknowledgement_neither_loses_nor_doubles(portal: Portal, agent: Agent) -> None:
    portal.lose_acks = 2
    _, log = portal.outcome("alpha", assignment(STEPS))
    assert log == WHOLE
    assert portal.lose_acks == 0


def test_a_gap_is_filled_from_where_the_server_says(portal: Portal, agent: Agent) -> None:
    order = assignment(STEPS)
    portal.assign("alpha", order)
    key = (order.fence, 0)
    portal.wait(lambda: b"step 3" in portal.logs[key], what="half of the log")
    with portal.changed:
        portal.logs[key] = portal.logs[key][:3]  # a server put back to an older copy
    portal.ended("alpha", order.fence)
    assert portal.logs[key].decode() == WHOLE
    offsets = [offset for fence, _, offset, _ in portal.log_calls if fence == order.fence]
    assert 3 in offsets


def test_long_logs_come_in_bounded_pieces(portal: Portal, agent: Agent) -> None:
    order = assignment("head -c 3500000 /dev/zero | tr '\\0' x")
    _, log = portal.outcome("alpha", order)
    assert len(log) == 3_500_000 and set(log) == {"x"}
    sizes = [size for fence, _, _, size in portal.log_calls if fence == order.fence]
    assert max(sizes) <= MAX_LOG_CHUNK


@pytest.mark.parametrize("status", [404, 410])
def test_an_unwanted_stream_is_no_longer_sent(portal: Portal, agent: Agent, status: int) -> None:
    calls = []

    def refuse(path: str) -> tuple[int, object] | None:
        if "/log" not in path:
            return None
        calls.append(path)
        return status, Refusal("gone", "this stream is closed")

    portal.trouble = refuse
    try:
        order = assignment(STEPS)
        portal.assign("alpha", order)
        report = portal.wait_for("alpha", order.fence, AttemptState.ENDED)
    finally:
        portal.trouble = None
    assert report.end_reason == EndReason.COMPLETED and report.log_size == len(WHOLE)
    assert len(calls) == 1


@pytest.mark.parametrize(("status", "passes"), [(404, True), (400, True), (413, False)])
def test_what_a_proxy_says_for_a_moment_ends_no_log(
    portal: Portal, agent: Agent, status: int, passes: bool
) -> None:
    """Only that a message is too large for it will be true again."""
    order = assignment(STEPS)
    asked: list[str] = []

    def reload(path: str) -> tuple[int, object] | None:
        if f"/{order.fence}/log" not in path:
            return None
        asked.append(path)
        return (status, b"<html>no such backend</html>") if len(asked) == 1 else None

    portal.trouble = reload
    try:
        portal.assign("alpha", order)
        if passes:
            portal.ended("alpha", order.fence)
            assert portal.logs[order.fence, 0].decode() == WHOLE
        else:
            portal.wait_for("alpha", order.fence, AttemptState.ENDED)
    finally:
        portal.trouble = None
    assert (len(asked) > 1) is passes and asked


def test_over_the_cap_head_and_tail_are_kept_and_the_gap_is_shown(
    portal: Portal, agents: Any
) -> None:
    agents("capped", "--spool-cap-mib", "1")
    script = "seq -w 1 400000; printf 'RuntimeError: the last words'; exit 5"
    report, log = portal.outcome("capped", assignment(script))
    assert report.exit_code == 5
    assert len(log) <= 1024 * 1024 and report.log_size == len(log)
    head, first_note, rest = log.partition("\n[trainyard] The log is cut here: it reached 1 MiB.")
    _, second_note, tail = rest.partition(" bytes of output are left out here.\n")
    assert first_note and second_note
    whole = "".join(f"{n:06}\n" for n in range(1, 400_001)) + "RuntimeError: the last words"
    assert whole.startswith(head) and whole.endswith(tail)
    left_out = int(rest.partition(" bytes of")[0].rpartition(" ")[2])
    assert len(head) + left_out + len(tail) == len(whole)
    assert len(head) > 500_000 and len(tail) > 500_000


def test_a_server_with_a_lower_cap_gets_the_tail_too(portal: Portal, agent: Agent) -> None:
    order = assignment("seq -w 1 400000")
    order = replace(order, launch=replace(order.launch, log_cap_mib=1))
    _, log = portal.outcome("alpha", order)
    assert len(log) <= 1024 * 1024 and log.endswith("399999\n400000\n")


def test_a_little_over_the_cap_nothing_is_left_out(portal: Portal, agents: Any) -> None:
    agents("little", "--spool-cap-mib", "1")
    _, log = portal.outcome("little", assignment("head -c 700000 /dev/zero | tr '\\0' x"))
    assert log.count("x") == 700_000 and "left out here" not in log


def test_bytes_that_are_no_text_arrive_unchanged(portal: Portal, agent: Agent) -> None:
    order = assignment("printf '\\377\\000\\033[31mred\\r\\n'")
    portal.assign("alpha", order)
    portal.ended("alpha", order.fence)
    assert portal.logs[order.fence, 0] == b"\xff\x00\x1b[31mred\r\n"


@pytest.fixture
def slot(tmp_path: Path) -> Any:
    """An attempt's folder with a line in its log."""
    path = tmp_path / "log"
    path.write_bytes(b"step 1\n")
    return SimpleNamespace(
        entry=SimpleNamespace(assignment=SimpleNamespace(fence=7, rank=0)),
        shipped=lambda: 0,
        note_shipped=lambda size: None,
        log_path=path,
    )


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were made durable."""
    found: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: found.append(os.readlink(f"/proc/self/fd/{file}"))
    )
    return found


def nobody(*call: Any) -> LogAck:
    raise ServerAway("nobody is there")


def test_while_the_server_is_away_the_nodes_own_copy_is_made_durable(
    slot: Any, synced: list[str]
) -> None:
    client: Any = SimpleNamespace(send_log=nobody)
    shipper = LogShipper(slot, client, 5.0)
    assert shipper._ship() > 0
    assert (synced, shipper.offset) == ([str(slot.log_path)], 0)
    client.send_log = lambda fence, rank, offset, chunk: LogAck(offset + len(chunk))
    shipper._ship()
    assert (len(synced), shipper.offset) == (1, 7), "what the server holds needs no second copy"


def test_between_two_tries_what_is_written_is_made_durable_every_second(
    slot: Any, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client: Any = SimpleNamespace(send_log=nobody)
    shipper = LogShipper(slot, client, 15.0)
    shipper._ship()
    waits: list[float] = []

    def wait(wait_s: float) -> bool:
        waits.append(wait_s)
        if len(waits) in (1, 2):
            with open(slot.log_path, "ab") as stream:
                stream.write(b"another\n")
        return len(waits) == 6

    monkeypatch.setattr(shipper._nudge, "wait", wait)
    shipper._outlast(3.5)
    assert waits == [1.0, 1.0, 1.0, 0.5]
    assert len(synced) == 3, "only what has grown"
    shipper._outlast(60.0)
    assert waits[4:] == [1.0, 1.0], "a nudge ends the wait"
    client.send_log = lambda fence, rank, offset, chunk: LogAck(offset + len(chunk))
    shipper._ship()
    shipper._outlast(2.5)
    assert waits[6:] == [2.5], "the server has it"


def test_a_piece_travels_with_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    client, called = Client("http://127.0.0.1:1", "token"), []

    def call(method: str, place: str, body: bytes, *more: Any) -> Any:
        called.append((place, body))
        raise NoAnswer("nobody is there")

    monkeypatch.setattr(client._connections, "call", call)
    with pytest.raises(ServerAway):
        client.send_log(7, 0, 3, b"step 1\n")
    [(place, body)] = called
    assert body == b"step 1\n"
    assert place.endswith(f"?rank=0&offset=3&sha256={hashlib.sha256(body).hexdigest()}")


def test_bytes_that_arrived_damaged_are_sent_again_from_where_they_were(slot: Any) -> None:
    told = Refusal("log_damaged", "send them again", {"expected": "0"})

    def refuse(*call: Any) -> LogAck:
        raise Refused(409, told)

    client: Any = SimpleNamespace(send_log=refuse)
    shipper = LogShipper(slot, client, 5.0)
    assert shipper._ship() > 0 and (shipper.offset, shipper._stopped) == (0, False)
    client.send_log = lambda fence, rank, offset, chunk: LogAck(offset + len(chunk))
    shipper._ship()
    assert shipper.offset == 7


def test_a_log_gives_way_where_all_logs_take_more_than_their_share_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk of 20 MiB, and nearly 2 MiB are taken by another attempt."""
    for name in ("1", "2", "spare-3"):
        (tmp_path / name).mkdir()
    (tmp_path / "1" / "log").write_bytes(b"x" * 1_950_000)
    disk = SimpleNamespace(f_blocks=20 * 1024, f_frsize=1024)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    monkeypatch.setattr(capture, "_STEP", 64 * 1024)
    words = b"".join(b"%06d\n" % number for number in range(200_000))
    path = tmp_path / "2" / "log"
    with LogCapture(path, 1, spool=tmp_path) as log:
        for at in range(0, len(words), 32 * 1024):
            os.write(log.write_end, words[at : at + 32 * 1024])
            assert log.take()
        log.settle()
    head, note, rest = path.read_bytes().partition(f"\n{capture.CUT}".encode())
    assert note and rest.startswith(b"the logs on this node take a tenth of its disk.")
    assert words.startswith(head) and 128 * 1024 <= len(head) <= 256 * 1024
    left_out, _, tail = rest.partition(f"{capture.LEFT_OUT}\n".encode())
    assert words.endswith(tail) and len(tail) > 500_000
    assert len(head) + int(left_out.rpartition(b" ")[2]) + len(tail) == len(words)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ESTALE])
def test_a_file_that_cannot_be_read_now_is_sent_later(
    slot: Any, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The thread that follows it is its only one."""
    sent: list[bytes] = []

    def send_log(fence: int, rank: int, offset: int, chunk: bytes) -> LogAck:
        sent.append(chunk)
        return LogAck(offset + len(chunk))

    read, tries = LogShipper._read, iter((OSError(code, os.strerror(code)),) * 2)

    def fail_twice(shipper: LogShipper) -> bytes:
        for problem in tries:
            raise problem
        return read(shipper)

    monkeypatch.setattr(LogShipper, "_read", fail_twice)
    slot.log_size, slot.exit = lambda: 7, lambda: object()
    client: Any = SimpleNamespace(send_log=send_log)
    shipper = LogShipper(slot, client, 0.1)
    shipper.look()
    wait_until(lambda: sent == [b"step 1\n"])
    assert shipper.offset == 7
