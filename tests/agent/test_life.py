"""An attempt's ordinary life: it starts, writes, ends, is reported and forgotten."""

from __future__ import annotations

from typing import Any

from scheduler.states import AttemptState, EndReason
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal


def test_it_starts_runs_and_succeeds_with_its_whole_log(portal: Portal, agent: Agent) -> None:
    portal.assign("alpha", assignment("echo hello; echo oops >&2; sleep 0.1; echo bye"))
    report = portal.ended("alpha", 1)
    assert report.end_reason == EndReason.COMPLETED
    assert report.exit_code == 0
    assert portal.logs[1, 0] == b"hello\noops\nbye\n"
    assert report.log_size == len(portal.logs[1, 0])
    assert report.started_at is not None and report.ended_at is not None
    assert 0.1 < report.ended_at - report.started_at < 5


def test_a_forgotten_attempt_leaves_no_spool_and_never_starts_again(
    portal: Portal, agent: Agent
) -> None:
    order = assignment("echo once")
    portal.assign("alpha", order)
    portal.ended("alpha", 1)
    portal.forget("alpha", 1)
    wait_until(lambda: not (agent.state / "spool" / "1").exists())
    portal.assign("alpha", order)
    portal.assign("alpha", assignment("echo other", fence=2))
    portal.ended("alpha", 2)
    assert portal.logs[1, 0] == b"once\n"


def test_the_exit_code_is_told(portal: Portal, agent: Agent) -> None:
    portal.assign("alpha", assignment("exit 3"))
    report = portal.ended("alpha", 1)
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, 3)


def test_a_death_by_signal_reads_like_a_shells(portal: Portal, agent: Agent) -> None:
    portal.assign("alpha", assignment("kill -SEGV $$"))
    report = portal.ended("alpha", 1)
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, 139)
    assert "SIGSEGV" in report.detail


def test_running_is_reported_before_the_end(portal: Portal, agent: Agent) -> None:
    portal.assign("alpha", assignment("sleep 0.5"))
    portal.wait_for("alpha", 1, AttemptState.RUNNING)
    portal.ended("alpha", 1)
    words = [report.state for report in portal.nodes["alpha"].history]
    assert words == sorted(words, key=list(AttemptState).index)


def test_samples_follow_the_work_of_the_holder(portal: Portal, agent: Agent) -> None:
    first = portal.nodes["alpha"].enrolment
    assert first is not None
    card, free = first.devices
    assert card.simulated and card.uuid.startswith("GPU-SIM-")
    portal.assign("alpha", assignment("while :; do :; done", device_uuids=(card.uuid,)))
    book = portal.nodes["alpha"]
    busy = portal.wait(
        lambda: [s for s in book.samples if s.uuid == card.uuid and s.gpu_percent > 50],
        what="a busy sample",
    )
    assert busy[0].fence == 1
    assert busy[0].power_watts > 100 and busy[0].memory_used_mib > 1000
    assert all(s.gpu_percent == 0 for s in book.samples if s.uuid == free.uuid)
    assert any(sync.host_sample for sync in book.syncs)


def test_host_and_devices_come_with_the_first_sync(portal: Portal, agents: Any) -> None:
    agents("beta", gpus=3)
    book = portal.nodes["beta"]
    portal.wait(lambda: len(book.syncs) > 2, what="syncs")
    assert book.syncs[0].host is not None and book.syncs[0].host.address == "127.0.0.1"
    assert book.syncs[0].devices is not None and len(book.syncs[0].devices) == 3
    assert book.syncs[-1].host is None and book.syncs[-1].devices is None
