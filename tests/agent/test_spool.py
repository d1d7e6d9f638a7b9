"""The spool: what was accepted stays known, what was forgotten stays gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scheduler.agent.runtime import records
from scheduler.agent.spool import Spool
from tests.agent.conftest import assignment


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
    assert spool.was_forgotten(order.fence)
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
    assert spool.was_forgotten(order.fence)


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
    assert [path.name for path in spool.root.iterdir()] == ["forgotten"]
    assert Spool(tmp_path / "spool").slots() == []


def test_a_file_of_entries_that_was_cut_short_accepted_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.accept([slot := spool.open(assignment())])
    (accepted,) = spool.root.glob("accepted-*")
    accepted.write_bytes(accepted.read_bytes()[:-1])
    (slot.path / records.ENTRY).write_text("")
    assert Spool(tmp_path / "spool").slots() == [] and not accepted.exists()
