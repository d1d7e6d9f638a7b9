"""The spool: what was accepted stays known, what was forgotten stays gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scheduler.agent.runtime import records
from scheduler.agent.runtime.records import ExitRecord, LaunchRecord, StartedRecord, write_record
from scheduler.agent.spool import Slot, Spool
from scheduler.states import EndReason
from scheduler.wire.messages import Assignment
from tests.agent.conftest import assignment
from tests.agent.test_full_disk import room_for


def test_a_slot_is_found_again_with_all_it_said(tmp_path: Path) -> None:
    order = assignment("echo \u00fc", env={"A": "\u2028"}, device_uuids=("GPU-1",))
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(order)])
    slot.note_shipped(12345)
    (slot,) = Spool(tmp_path / "spool").slots()
    assert slot.entry.assignment == order and slot.shipped() == 12345
    assert slot.exit() is None and slot.log_size() == 0


def test_a_fence_is_accepted_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.open(order := assignment())
    with pytest.raises(FileExistsError):
        spool.open(order)


def test_only_one_claims_an_attempt(tmp_path: Path) -> None:
    slot = Spool(tmp_path / "spool").open(assignment())
    assert slot.void()
    assert not slot.void()
    claim = slot.supervisor()
    assert claim is not None and claim.pid == 0


def test_the_forgotten_are_remembered_and_a_late_note_does_not_revive_them(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path / "spool")
    slot = spool.open(order := assignment())
    spool.forget([slot])
    with pytest.raises(FileNotFoundError):
        slot.note_shipped(1)
    assert not slot.path.exists()
    assert spool.was_forgotten(order.fence) and spool.is_gone(order.fence)
    assert Spool(tmp_path / "spool").was_forgotten(order.fence)


def test_a_half_written_entry_was_never_accepted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    slot = spool.open(order := assignment())
    (slot.path / records.ENTRY).write_text('{"boot')
    assert Spool(tmp_path / "spool").slots() == []
    assert not Spool(tmp_path / "spool").was_forgotten(order.fence)


def test_a_damaged_entry_of_something_that_may_have_run_is_kept_and_not_run_again(
    tmp_path: Path,
) -> None:
    slot = Spool(tmp_path / "spool").open(order := assignment())
    (slot.path / records.ENTRY).write_text("{")
    (slot.path / records.LAUNCH).write_text("{")
    spool = Spool(tmp_path / "spool")
    assert spool.slots() == [] and slot.path.exists()
    assert spool.was_forgotten(order.fence) and not spool.is_gone(order.fence)


def test_what_a_power_loss_took_of_accepted_entries_is_restored(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    lost, cut, done = orders = [assignment() for _ in range(3)]
    slots = [spool.open(order) for order in orders]
    spool.accept(slots)
    spool.forget([slots[2]])
    shutil.rmtree(slots[0].path)
    (slots[1].path / records.ENTRY).write_text("")
    spool = Spool(tmp_path / "spool")
    found = spool.slots()
    assert sorted(slot.entry.assignment.fence for slot in found) == [lost.fence, cut.fence]
    assert found[0].entry == slots[0].entry and found[0].shipped() == 0
    assert spool.was_forgotten(done.fence)
    # All forgotten: nothing is left that could be restored.
    spool.forget(found)
    assert [path.name for path in spool.root.glob("[!.]*")] == ["forgotten"]
    assert Spool(tmp_path / "spool").slots() == []


def test_a_file_of_entries_that_was_cut_short_accepted_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(assignment())])
    (accepted,) = spool.root.glob("accepted-*")
    accepted.write_bytes(accepted.read_bytes()[:-1])
    (slot.path / records.ENTRY).write_text("")
    assert Spool(tmp_path / "spool").slots() == [] and not accepted.exists()


def test_a_full_disk_keeps_no_agent_from_what_it_has(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(assignment())])
    slot.write_launch(launch_of(slot.entry.assignment))
    spool.forget([_through(spool, gone := assignment())])
    with room_for(0):
        again = Spool(tmp_path / "spool")
        (found,) = again.slots()
    assert found.entry == slot.entry and found.launch() == slot.launch()
    assert again.was_forgotten(gone.fence) and not again.was_forgotten(slot.entry.assignment.fence)
    with room_for(0):
        again.forget([found])
    assert not slot.path.exists() and again.was_forgotten(slot.entry.assignment.fence)


def test_what_a_full_disk_had_no_room_for_the_next_agent_writes(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(assignment())])
    with room_for(0):
        assert [one.entry for one in Spool(tmp_path / "spool").slots()] == [slot.entry]
    (later,) = Spool(tmp_path / "spool").slots()
    assert later.entry == slot.entry and (slot.path / records.ENTRY).exists()


def launch_of(order: Assignment) -> LaunchRecord:
    return LaunchRecord(
        fence=order.fence,
        rank=0,
        command=("true",),
        env={},
        processes=({},),
        working_dir="/",
        notice_dir="/",
        marker="",
        uid=None,
        cpus=1,
        memory_mib=1,
        time_limit_s=1,
        stop_signal="SIGTERM",
        stop_grace_s=1,
        disconnect_grace_s=1.0,
        last_sync_path="",
        hint_address="",
        log_cap_mib=1,
    )


def _through(spool: Spool, order: Assignment, *more: str) -> Slot:
    """An attempt from acceptance to its end; `more`: names of further files it leaves."""
    spool.accept([slot := spool.open(order)])
    slot.write_launch(launch_of(order))
    assert slot.void()
    slot.write_exit(ExitRecord(EndReason.COMPLETED, 1.0, exit_code=0, detail="x" * 400))
    for name in more:
        (slot.path / name).write_text("mine")
    return slot


def _inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in (folder, *folder.rglob("*"))}


def test_the_files_of_an_attempt_that_said_nothing_are_used_again(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    slot = _through(spool, assignment())
    write_record(slot.path / records.STARTED, StartedRecord(1.5, (7,), slot.entry.assignment.fence))
    spool.forget([slot])
    before = _inodes(spool.root)
    for is_long in (False, True, False, True):
        slot = spool.open(order := assignment())
        assert (slot.launch(), slot.supervisor(), slot.started(), slot.exit()) == (None,) * 4
        assert slot.stop() is None and slot.log_size() == slot.shipped() == 0
        spool.accept([slot])
        slot.write_launch(launch_of(order))
        assert slot.void() and not slot.void(), "claimed once, as in a folder of its own"
        if is_long:
            write_record(slot.path / records.STARTED, StartedRecord(1.5, (7,), order.fence))
        assert (slot.started() is not None) == is_long
        slot.write_exit(ExitRecord(EndReason.EXIT_CODE, 2.0, exit_code=3))
        found = Slot(slot.path, slot.entry)
        end, claim = found.exit(), found.supervisor()
        assert end is not None and (end.fence, end.exit_code, end.detail) == (order.fence, 3, "")
        assert claim is not None and claim.fence == order.fence
        assert (found.launch(), slot.launch()) == (launch_of(order), launch_of(order))
        spool.forget([slot])
        assert spool.was_forgotten(order.fence) and not slot.path.exists()
    assert _inodes(spool.root) == before, "something was made, or deleted and made"


@pytest.mark.parametrize("left", [records.LOG, records.STOP, records.SHIPPED, records.ERRORS])
def test_what_only_one_attempt_may_see_is_deleted_with_its_folder(
    tmp_path: Path, left: str
) -> None:
    spool = Spool(tmp_path / "spool")
    spool.forget([_through(spool, assignment(), left)])
    assert list(spool.root.glob("spare-*")) == []
    assert list(spool.open(assignment()).path.iterdir()) == []


def test_a_power_loss_that_brings_old_names_back_ends_nobody(tmp_path: Path) -> None:
    """The folder's new name is on disk, what was renamed in it is not."""
    spool = Spool(tmp_path / "spool")
    spool.forget([_through(spool, assignment())])
    spool.accept([slot := spool.open(assignment())])
    for path in slot.path.iterdir():
        path.rename(slot.path / path.name.removeprefix(".").removesuffix(".spare"))
    assert (slot.path / records.EXIT).exists()
    (found,) = Spool(spool.root).slots()
    assert (found.exit(), found.supervisor(), found.launch()) == (None, None, None)


def test_spares_do_not_outlive_their_agent_nor_grow_without_bound(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    slots = [_through(spool, assignment()) for _ in range(40)]
    spool.forget(slots)
    assert len(list(spool.root.glob("spare-*"))) == 32
    assert Spool(spool.root).slots() == []
    assert [path.name for path in spool.root.iterdir()] == ["forgotten"]
    assert spool.open(assignment()).path.is_dir(), "an agent whose spares are gone makes folders"


def test_a_folder_that_was_forgotten_but_not_deleted_is_deleted(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    slot = _through(spool, assignment())
    kept = tmp_path / "kept"
    shutil.copytree(slot.path, kept)
    spool.forget([slot])
    shutil.copytree(kept, slot.path)  # killed between the two
    assert Spool(spool.root).slots() == [] and not slot.path.exists()
