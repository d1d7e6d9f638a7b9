"""What replies do to the attempts of a node, in every order they can arrive."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent import runner
from scheduler.agent.client import Client
from scheduler.agent.config import NodeIdentity, Options, make_work_folder
from scheduler.agent.converge import Roster
from scheduler.agent.gpus import SimulatedGpus
from scheduler.agent.kept import removing
from scheduler.agent.node.isolation import Keeping
from scheduler.agent.node.troubles import TroubleWatch
from scheduler.agent.runtime.records import ExitRecord
from scheduler.agent.runtime.space.contact import since_boot
from scheduler.agent.runtime.space.trees import remove_tree
from scheduler.agent.spool import Slot
from scheduler.states import AttemptState, EndReason, Isolation, NodeState
from scheduler.wire.codec import encode
from scheduler.wire.messages import PROTOCOL, Assignment, Refusal, SyncReply, SyncRequest
from tests.agent.conftest import assignment, wait_until
from tests.agent.portal import Portal
from tests.agent.test_spool import launch_of


@pytest.fixture
def roster(portal: Portal, folder: Path, request: pytest.FixtureRequest) -> Iterator[Roster]:
    state = folder / request.node.name[:40]
    make_work_folder(state)
    client = Client(portal.url, "token-of-nobody")
    identity = NodeIdentity(portal.url, 1, "nobody", "main", "token-of-nobody")
    options = Options(state, state, retry_cap_s=0.2)
    gpus = SimulatedGpus("nobody", 2, "NVIDIA L4")
    watch = TroubleWatch(state / "t.json", gpus, boot_id="b", folders=[state], min_free_mib=1)
    hint = f"test-{state.name}-{time.time()}"
    keeping = Keeping(Isolation.NONE)
    made = Roster(identity, options, client, watch, hint, lambda: None, gpus, keeping)
    yield made
    made.converge(reply(10_000), time.monotonic())
    wait_until(lambda: set(words(made).values()) <= {AttemptState.ENDED})
    made.close()
    client.close()


def reply(revision: int, *wanted: Assignment, forget: tuple[int, ...] = ()) -> SyncReply:
    return SyncReply(PROTOCOL, revision, NodeState.READY, wanted, forget)


def words(roster: Roster) -> dict[int, AttemptState]:
    roster.refresh(())
    return {report.fence: report.state for report in roster.reports()}


def test_a_late_reply_is_ignored(roster: Roster) -> None:
    asked_before = time.monotonic()
    order = assignment("sleep 30", stop_grace_s=0)
    assert roster.converge(reply(5, order), time.monotonic())
    assert not roster.converge(reply(4, assignment("echo stale")), asked_before)
    assert list(words(roster)) == [order.fence] and roster.heard.revision == 5


def test_a_server_put_back_to_an_earlier_copy_is_followed(roster: Roster) -> None:
    first, second = assignment("sleep 30", stop_grace_s=0), assignment("true")
    roster.converge(reply(50, first), time.monotonic())
    assert roster.converge(reply(7, second), time.monotonic())
    assert roster.heard.revision == 7
    wait_until(lambda: set(words(roster).values()) == {AttemptState.ENDED})
    assert {report.end_reason for report in roster.reports()} == {
        EndReason.NODE_LOST,
        EndReason.COMPLETED,
    }


def test_a_reply_asked_for_before_the_attempt_was_known_does_not_stop_it(roster: Roster) -> None:
    asked_before = time.monotonic()
    order = assignment("sleep 30", stop_grace_s=0)
    roster.converge(reply(5, order), time.monotonic())
    assert not roster.converge(reply(5), asked_before)
    assert words(roster)[order.fence] != AttemptState.STOPPING
    assert roster.converge(reply(5), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)


def test_the_same_reply_twice_starts_once(roster: Roster) -> None:
    order = assignment("true")
    assert roster.converge(reply(5, order), time.monotonic())
    assert not roster.converge(reply(5, order), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)
    assert not roster.converge(reply(6, order), time.monotonic())
    assert len(roster.spool.slots()) == 1


def test_only_what_has_ended_is_forgotten(roster: Roster) -> None:
    order = assignment("sleep 30", stop_grace_s=0)
    roster.converge(reply(5, order), time.monotonic())
    roster.converge(reply(6, order, forget=(order.fence,)), time.monotonic())
    assert order.fence in words(roster)
    roster.converge(reply(7), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)
    assert roster.reports()[0].end_reason == EndReason.NODE_LOST
    roster.converge(reply(8, forget=(order.fence,)), time.monotonic())
    assert roster.reports() == () and roster.spool.was_forgotten(order.fence)


def test_what_was_forgotten_and_is_asked_for_again_is_told_to_have_ended(roster: Roster) -> None:
    """The server's database was put back: nobody else can tell it that this is over."""
    order = assignment("true")
    roster.converge(reply(5, order), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)
    roster.converge(reply(6, forget=(order.fence,)), time.monotonic())
    roster.converge(reply(1_000_007, order), time.monotonic())
    [told] = roster.reports()
    assert (told.fence, told.state) == (order.fence, AttemptState.ENDED)
    assert (told.end_reason, told.started_at) == (EndReason.NODE_LOST, None)
    roster.converge(reply(1_000_008, forget=(order.fence,)), time.monotonic())
    assert roster.reports() == ()


def test_what_waits_for_its_files_and_is_asked_for_again_is_told_as_it_ended(
    portal: Portal, roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's database was put back while they are on their way."""
    order = assignment('echo all > "$TRAINYARD_OUTPUT_DIR/files"')
    roster.converge(reply(5, order), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)
    assert not roster.converge(reply(6, forget=(order.fence,)), time.monotonic())
    assert roster.reports() == () and not roster.spool.was_forgotten(order.fence)
    assert roster.converge(reply(1_000_007, order), time.monotonic())
    assert not roster.converge(reply(1_000_007, order), time.monotonic())
    [told] = roster.reports()
    assert (told.fence, told.end_reason) == (order.fence, EndReason.COMPLETED)
    roster.converge(reply(1_000_008, forget=(order.fence,)), time.monotonic())
    assert roster.reports() == () and not roster.spool.was_forgotten(order.fence)
    nobody_wants_them = 404, Refusal("not_found", "no such attempt")
    monkeypatch.setattr(portal, "trouble", lambda _: nobody_wants_them)
    wait_until(lambda: roster.spool.was_forgotten(order.fence))


def test_what_takes_long_to_delete_holds_up_no_call(
    roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job can leave a million files; a node that is silent meanwhile would be given up."""
    goes_on, removed = threading.Event(), list[Path]()

    def slow(place: Path) -> None:
        goes_on.wait(20)
        removed.append(place)
        remove_tree(place)

    monkeypatch.setattr(removing, "remove_tree", slow)
    order = assignment('mkdir "$TRAINYARD_SCRATCH_DIR/left"')
    roster.converge(reply(5, order), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)
    assert roster.converge(reply(6, forget=(order.fence,)), time.monotonic())
    assert roster.reports() == () and removed == []
    second = assignment("true")
    roster.converge(reply(7, second), time.monotonic())
    wait_until(lambda: words(roster)[second.fence] == AttemptState.ENDED)
    goes_on.set()
    wait_until(lambda: removed and not removed[0].exists())
    assert removed[0].name == f".gone-{order.fence}-0-scratch"


def test_what_cannot_be_deleted_keeps_nobody_from_forgetting(
    roster: Roster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(runner, "remove_scratch", fails)
    order = assignment("true")
    roster.converge(reply(5, order), time.monotonic())
    wait_until(lambda: words(roster)[order.fence] == AttemptState.ENDED)
    assert roster.converge(reply(6, forget=(order.fence,)), time.monotonic())
    assert roster.spool.was_forgotten(order.fence)


def test_a_rank_that_waits_for_rank_0_holds_nothing_yet(roster: Roster) -> None:
    order = assignment("true", rank=1, addresses=("127.0.0.1", "127.0.0.1"))
    assert not roster.converge(reply(5, order), time.monotonic())
    assert roster.reports() == () and roster.spool.slots() == []


def _with_changes(roster: Roster, count: int) -> list[Slot]:
    """Attempts whose code has as many local changes as are kept of them, as an agent left them."""
    # Second ranks: nobody looks for their checkpoints.
    places = ("127.0.0.1", "127.0.0.1")
    slots = [roster.spool.open(assignment(rank=1, addresses=places)) for _ in range(count)]
    roster.spool.accept(slots)
    for slot in slots:
        order = slot.entry.assignment
        patch = "+\u00e4\n" * 64 * 1024
        slot.write_launch(replace(launch_of(order), code_commit="c0ffee", code_patch=patch))
        slot.write_exit(ExitRecord(EndReason.EXIT_CODE, 2.0, 1.0, 3))
    return slots


def test_a_call_never_carries_more_local_changes_than_the_server_takes(
    roster: Roster, settings: Any
) -> None:
    """Commit, changes and end come together: the server takes them once."""
    fences = {slot.entry.assignment.fence for slot in _with_changes(roster, 12)}
    roster.adopt()
    roster.refresh(())
    told: dict[int, int] = {}
    for _ in range(12):
        reports = roster.reports()
        assert {report.fence for report in reports} == fences, "who is left out is left behind"
        said = SyncRequest(PROTOCOL, "0", "a", "b", 0, 0.0, 0.0, reports=reports)
        assert len(encode(said)) < settings.DATA_UPLOAD_MAX_MEMORY_SIZE * 2 // 3
        for report in reports:
            if report.code_patch:
                told[report.fence] = told.get(report.fence, 0) + 1
                assert report.code_commit and report.end_reason == EndReason.EXIT_CODE
            if report.fence not in told:
                assert (report.code_commit, report.end_reason) == ("", None)
        roster.note_contact(since_boot(), reports)
    assert told == dict.fromkeys(fences, 1)
    assert {report.end_reason for report in reports} == {EndReason.EXIT_CODE}
    assert not any(report.code_patch for report in reports)
