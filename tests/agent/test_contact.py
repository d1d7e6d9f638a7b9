"""Supervisors hear of a contact whatever becomes of the disk, and of none that was not."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.agent.news import Contact
from scheduler.agent.runtime.space import contact as clocks
from scheduler.agent.runtime.space.contact import (
    Silence,
    contact_of,
    since_boot,
    slept_s,
    write_contact,
)
from scheduler.states import AttemptState, EndReason
from tests.agent.conftest import Agent, wait_until
from tests.agent.portal import Portal
from tests.agent.test_full_disk import room_for
from tests.agent.test_restart import begin, own, slot_of

__all__ = ("own",)


@pytest.fixture
def contact(tmp_path: Path) -> Contact:
    return Contact(tmp_path / "last_sync", tmp_path / "memory", "boot")


def test_a_contact_is_noted_but_not_one_after_the_other(contact: Contact) -> None:
    for sent_at in (5.0, 5.1, 5.2, 4.0):
        contact.note(sent_at)
    assert contact_of(contact.paths, "boot") == 5.0
    contact.note(5.25)
    assert contact_of(contact.paths, "boot") == 5.25
    # As supervisors of earlier agents read it.
    boot, _, at = contact.paths[0].read_text().partition(" ")
    assert boot == "boot" and float(at) == pytest.approx(5.25 - slept_s(), abs=0.002)


def test_it_is_written_over_in_its_place_and_needs_no_room(contact: Contact) -> None:
    contact.note(9.0)
    before = [(path.stat().st_ino, path.stat().st_size) for path in contact.paths]
    with room_for(before[0][1]):
        contact.note(99_999.5)
        contact.note(100_000.5)
    assert [(path.stat().st_ino, path.stat().st_size) for path in contact.paths] == before
    assert len(list(contact.paths[0].parent.iterdir())) == 2, "nothing is made beside it"
    assert contact_of(contact.paths[:1], "boot") == contact_of(contact.paths[1:], "boot")
    assert all(path.read_text().endswith("100000500\n") for path in contact.paths)


@pytest.mark.parametrize("broken", [0, 1])
def test_one_of_the_two_is_enough(contact: Contact, broken: int) -> None:
    contact.paths[broken].mkdir()
    for sent_at in (7.0, 8.0):
        contact.note(sent_at)
    assert contact_of(contact.paths, "boot") == 8.0
    assert Contact(*contact.paths, "boot").at == 8.0


def test_what_an_earlier_agent_wrote_counts_unless_the_host_was_started_again(
    contact: Contact,
) -> None:
    contact.paths[0].write_text("boot 123.456")
    assert Contact(*contact.paths, "boot").at == pytest.approx(123.456 + slept_s(), abs=0.1)
    assert Contact(*contact.paths, "another").at == pytest.approx(since_boot(), abs=5)
    contact.note(124.0)
    assert re.fullmatch(r"boot \d{16}\.\d{3}0000000124000\n", contact.paths[0].read_text())


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Call it: the machine has slept for so long, of which monotonic clocks know nothing."""
    slept = [0.0]
    real = since_boot
    monkeypatch.setattr(clocks, "since_boot", lambda: real() + sum(slept))
    return slept.append


def test_a_machine_that_slept_knows_how_long_the_server_was_not_reached(
    contact: Contact, sleeps: Callable[[float], None]
) -> None:
    silence = Silence(contact.paths, "boot")
    sleeps(60)
    contact.note(clocks.since_boot())
    assert silence.seconds() < 5
    sleeps(3600)
    assert 3600 <= silence.seconds() < 3605
    # Also for who begins now, and for a new agent; of what the one before asked for at the end.
    assert 3600 <= Silence(contact.paths, "boot").seconds() < 3605
    reached_at = Contact(*contact.paths, "boot").at
    assert 3600 <= clocks.since_boot() - reached_at < 3605
    contact.note(clocks.since_boot())
    assert silence.seconds() < 5


def test_who_was_never_reached_counts_the_sleep_since_it_began(
    tmp_path: Path, sleeps: Callable[[float], None]
) -> None:
    silence = Silence([tmp_path / "none"], "boot")
    assert silence.seconds() < 5
    sleeps(3600)
    assert silence.seconds() >= 3600


def test_agents_of_before_and_after_a_sleep_end_nothing_of_each_other(
    contact: Contact, sleeps: Callable[[float], None]
) -> None:
    """They count by a clock that stood still meanwhile."""
    silence = Silence(contact.paths, "boot")
    sleeps(3600)
    for path in contact.paths:
        path.write_text(f"boot {time.monotonic():020.3f}\n")
    assert silence.seconds() < 5, "an older agent works here, which was put back"
    assert clocks.since_boot() - Contact(*contact.paths, "boot").at < 5
    contact.note(clocks.since_boot())
    for path in contact.paths:
        # As a supervisor reads it that an older agent has started.
        boot, _, at = path.read_text().partition(" ")
        assert boot == "boot" and time.monotonic() - 5 < float(at) <= time.monotonic()
    sleeps(30)
    Contact(*contact.paths, "boot").note(clocks.since_boot() - 31)
    at = contact.paths[0].read_text().partition(" ")[2]
    assert float(at) <= time.monotonic() - 30, "an answer that slept itself is an old one"


def test_a_moment_that_an_earlier_agent_rounded_up_is_believed_at_once(
    contact: Contact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "since_boot", lambda: 99.9996)
    monkeypatch.setattr(clocks, "slept_s", lambda: 0.0)
    contact.paths[0].write_text(f"boot {99.9996:020.3f}\n")
    assert contact_of(contact.paths, "boot") == pytest.approx(99.9996, abs=0.001)
    contact.paths[0].write_text(f"boot {100.001:020.3f}\n")
    assert contact_of(contact.paths, "boot") == 0.0, "that lies ahead"


def test_what_lies_ahead_or_is_no_number_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "contact"
    for at in (f"{time.monotonic() + 60:020.3f}", "nan", "inf", "0000", "x", ""):
        path.write_text(f"boot {at}\n")
        assert contact_of([path, tmp_path / "none"], "boot") == 0.0


@pytest.mark.parametrize("kind", ["link", "pipe", "hard link"])
def test_nobody_elses_file_is_written(tmp_path: Path, kind: str) -> None:
    """The copy in memory lies where every user of the host may make files."""
    path, prey = tmp_path / "contact", tmp_path / "prey"
    prey.write_text("mine")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(prey)
    else:
        path.hardlink_to(prey)
    write_contact(path, "boot", 5.0)
    assert prey.read_text() == "mine" and contact_of([path], "boot") == 5.0


@pytest.mark.parametrize("kind", ["pipe", "link", "another user's"])
def test_nor_is_it_believed_or_waited_for(tmp_path: Path, kind: str) -> None:
    """Who wrote it again and again could keep a program alive that runs elsewhere by now."""
    path, theirs = tmp_path / "contact", tmp_path / "theirs"
    theirs.write_text("boot 0000000000000005.000\n")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(theirs)
    elif os.geteuid() == 0:
        theirs.rename(path)
        os.chown(path, 65_000, 65_000)
    else:
        pytest.skip("only root can give a file to another user")
    assert contact_of([path], "boot") == 0.0


def test_a_disk_that_takes_nothing_ends_no_program(portal: Portal, own: Agent) -> None:
    own.start("--disconnect-grace-s", "2")
    order = begin(portal, own, "echo one; sleep 300", stop_grace_s=1)
    note = own.state / "last_sync"
    note.unlink()
    note.mkdir()
    time.sleep(4)
    assert portal.nodes[own.name].reports[order.fence].state == AttemptState.RUNNING
    portal.trouble = lambda path: (503, None)
    try:
        end = wait_until(lambda: slot_of(own, order).exit())
    finally:
        portal.trouble = None
    assert end.end_reason == EndReason.NODE_LOST and "no contact" in end.detail
