"""Where things lie, and how patiently the agent tries again."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from scheduler.agent.client import Backoff, Client, ServerAway, ServerDown
from scheduler.agent.config import (
    ConfigProblem,
    NodeIdentity,
    choose_work_folder,
    first_closed_folder,
    make_work_folder,
    read_identity,
    write_identity,
)

NODE = NodeIdentity("http://portal", 3, "node-3", "main", "secret")


def test_jobs_folders_stay_with_the_state_where_others_can_enter(folder: Path) -> None:
    assert first_closed_folder(folder) is None
    assert choose_work_folder(folder / "state", None, is_root=True) == folder / "state"


def test_behind_a_closed_folder_root_keeps_them_elsewhere(folder: Path) -> None:
    closed = folder / "home"
    closed.mkdir()
    closed.chmod(0o700)
    state = closed / "state"
    assert first_closed_folder(state) == closed
    chosen = choose_work_folder(state, None, is_root=True)
    assert chosen.parent == Path("/var/lib/trainyard")
    assert chosen == choose_work_folder(state, None, is_root=True)
    assert chosen != choose_work_folder(closed / "other", None, is_root=True)
    assert choose_work_folder(state, None, is_root=False) == state
    assert choose_work_folder(state, folder / "wish", is_root=True) == folder / "wish"


def test_only_new_folders_get_a_mode(folder: Path) -> None:
    old = folder / "old"
    old.mkdir()
    old.chmod(0o750)
    make_work_folder(old / "new" / "work")
    assert stat.S_IMODE(old.stat().st_mode) == 0o750
    assert stat.S_IMODE((old / "new" / "work").stat().st_mode) == 0o711


def test_an_identity_is_read_as_written_and_a_broken_one_says_what_to_do(folder: Path) -> None:
    write_identity(folder / "id", NODE)
    assert read_identity(folder / "id") == NODE
    (folder / "id" / "node.json").write_text("{")
    with pytest.raises(ConfigProblem, match="enrol this node first"):
        read_identity(folder / "id")


def test_waits_grow_to_the_cap_and_begin_again_after_success() -> None:
    backoff = Backoff(cap_s=4.0, first_s=0.25)
    waits = [backoff.next_s() for _ in range(50)]
    assert all(0.1 < wait <= 4.0 for wait in waits)
    assert waits[0] <= 0.25 and max(waits[10:]) > 1.0
    # A server that is down costs nothing by being asked, and is soon up again.
    assert all(backoff.next_s(ServerDown()) <= 2.0 for _ in range(50))
    backoff.reset()
    assert backoff.next_s() <= 0.25


def test_no_wait_is_shorter_than_the_server_asked_for() -> None:
    backoff = Backoff(cap_s=4.0, first_s=0.25)
    waits = [backoff.next_s(ServerAway("busy", 7.0)) for _ in range(50)]
    assert all(7.1 < wait <= 11.0 for wait in waits)
    assert len({round(wait, 3) for wait in waits}) > 10, "they come one after the other"


def test_a_refused_connection_is_told_from_an_answer_that_did_not_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        client = Client(f"http://127.0.0.1:{held.getsockname()[1]}")
    with pytest.raises(ServerDown, match="refused"):
        client.secrets(1)
    client.close()
