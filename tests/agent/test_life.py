"""An attempt's ordinary life: it starts, writes, ends, is reported and forgotten."""

from __future__ import annotations

from typing import Any

from scheduler.states import AttemptState, EndReason
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal


def test_it_starts_runs_and_succeeds_with_its_whole_log(portal: Portal, agent: Agent) -> None:
    order = assignment("echo hello; echo oops >&2; sleep 0.3; echo bye")
    report, log = portal.outcome("alpha", order)
    assert report.end_reason == EndReason.COMPLETED
    assert report.exit_code == 0
    assert log == "hello\noops\nbye\n"
    assert report.log_size == len(log)
    assert report.started_at is not None and report.ended_at is not None
    # It is told to have begun a little late where the machine is busy.
    assert 0.1 < report.ended_at - report.started_at < 5


def test_a_forgotten_attempt_leaves_no_spool_and_never_starts_again(
    portal: Portal, agent: Agent
) -> None:
    order = assignment("echo once")
    portal.outcome("alpha", order)
    portal.forget("alpha", order.fence)
    wait_until(lambda: not (agent.state / "spool" / str(order.fence)).exists())
    portal.assign("alpha", order)
    portal.outcome("alpha", assignment("echo other"))
    assert portal.logs[order.fence, 0] == b"once\n"
    assert not (agent.state / "spool" / str(order.fence)).exists()


def test_the_exit_code_is_told(portal: Portal, agent: Agent) -> None:
    report, _ = portal.outcome("alpha", assignment("exit 3"))
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, 3)


def test_a_death_by_signal_reads_like_a_shells(portal: Portal, agent: Agent) -> None:
    report, _ = portal.outcome("alpha", assignment("kill -SEGV $$"))
    assert (report.end_reason, report.exit_code) == (EndReason.EXIT_CODE, 139)
    assert "SIGSEGV" in report.detail


def test_states_are_told_in_order(portal: Portal, agent: Agent) -> None:
    order = assignment("sleep 0.5")
    portal.assign("alpha", order)
    portal.wait_for("alpha", order.fence, AttemptState.RUNNING)
    portal.ended("alpha", order.fence)
    told = [r.state for r in portal.nodes["alpha"].history if r.fence == order.fence]
    assert told == sorted(told, key=list(AttemptState).index)


def test_an_end_is_told_at_once(portal: Portal, agent: Agent) -> None:
    delays = []
    for _ in range(3):
        order = assignment("true")
        portal.assign("alpha", order)
        report = portal.wait_for("alpha", order.fence, AttemptState.ENDED)
        assert report.ended_at is not None
        delays.append(portal.nodes["alpha"].syncs[-1].sent_at - report.ended_at)
    # Far below the heartbeat and the held call: the supervisor's hint made the difference.
    assert min(delays) < 0.25


def test_samples_follow_the_work_of_the_holder(portal: Portal, agent: Agent) -> None:
    book = portal.nodes["alpha"]
    assert book.enrolment is not None
    card, free = book.enrolment.devices
    assert card.simulated and card.uuid.startswith("GPU-SIM-")
    order = assignment("while :; do :; done", device_uuids=(card.uuid,), stop_grace_s=0)
    portal.assign("alpha", order)
    busy = portal.wait(
        lambda: [s for s in book.samples if s.uuid == card.uuid and (s.gpu_percent or 0) > 5],
        what="a busy sample",
    )
    assert busy[0].fence == order.fence
    idle = [s for s in book.samples if s.uuid == free.uuid]
    assert busy[0].power_watts > max(s.power_watts for s in idle)
    assert busy[0].memory_used_mib > 1000
    assert all(s.gpu_percent == 0 for s in idle)
    assert any(sync.host_sample for sync in book.syncs)
    portal.unlist("alpha", order.fence)
    portal.ended("alpha", order.fence)


def test_host_and_devices_come_with_the_first_sync(portal: Portal, agents: Any) -> None:
    agents("first-sync", gpus=3)
    book = portal.nodes["first-sync"]
    portal.wait(lambda: len(book.syncs) > 3, what="syncs")
    first, last = book.syncs[0], book.syncs[-1]
    assert first.host is not None and first.host.address == "127.0.0.1"
    assert first.devices is not None and len(first.devices) == 3
    assert last.host is None and last.devices is None


def test_a_talkative_program_loses_nothing(portal: Portal, agent: Agent) -> None:
    order = assignment("i=0; while [ $i -lt 20000 ]; do echo line-$i; i=$((i+1)); done")
    _, log = portal.outcome("alpha", order)
    assert log.splitlines() == [f"line-{number}" for number in range(20_000)]
