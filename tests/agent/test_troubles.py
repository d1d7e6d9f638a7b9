"""What is wrong is noticed, remembered over a restart of the agent, blamed and checked."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from scheduler.agent.gpus import Fault, SimulatedGpus
from scheduler.agent.node.troubles import Checks, TroubleWatch
from scheduler.states import AttemptState, EndReason, Trouble
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal


def make(tmp_path: Path, boot: str = "boot-1", least: int = 1) -> tuple[TroubleWatch, Path, list]:
    faults = tmp_path / "faults.json"
    gpus = SimulatedGpus("n", 2, "NVIDIA L4", faults)
    file = tmp_path / "troubles.json"
    watch = TroubleWatch(file, gpus, boot_id=boot, folders=[tmp_path], min_free_mib=least)
    return watch, faults, [device.uuid for device in gpus.inventory()]


def test_what_passes_is_forgotten_and_what_sticks_is_not(tmp_path: Path) -> None:
    watch, faults, uuids = make(tmp_path)
    faults.write_text(json.dumps({"0": {"kind": "xid", "detail": "79"}, "1": {"kind": "hot"}}))
    watch.look({uuids[0]: 5})
    assert [(t.kind, t.uuid, t.fence) for t in watch.all()] == sorted(
        [("hot", uuids[1], None), ("xid", uuids[0], 5)], key=lambda one: (one[1], one[0])
    )
    faults.write_text("{}")
    watch.look({})
    assert [t.kind for t in watch.all()] == ["xid"]


def test_it_outlives_the_agent_but_not_the_host(tmp_path: Path) -> None:
    watch, faults, uuids = make(tmp_path)
    faults.write_text('{"1": {"kind": "lost"}}')
    watch.look({})
    faults.unlink()
    assert [t.uuid for t in make(tmp_path)[0].all()] == [uuids[1]]
    assert make(tmp_path, boot="boot-2")[0].all() == ()
    (tmp_path / "troubles.json").write_text('{"boot_id": "boot-1", "troubles": [{"kind": 5}]')
    assert make(tmp_path)[0].all() == ()


def test_an_error_that_comes_again_is_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have been told to overrule the first."""
    watch, _, uuids = make(tmp_path)
    events = [Fault(uuids[0], Trouble.XID, "Xid 48", is_new=True)]
    monkeypatch.setattr(watch._gpus, "faults", lambda held: tuple(events))
    watch.look({})
    [first] = watch.all()
    watch.look({uuids[0]: 5})
    [second] = watch.all()
    assert second.since > first.since and second.fence == 5
    assert make(tmp_path)[0].all() == (second,)
    events.clear()
    watch.look({})
    assert watch.all() == (second,)


def test_a_count_that_passed_its_check_is_told_once_it_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, _, uuids = make(tmp_path)

    def look(count: int, watch: TroubleWatch) -> list[str]:
        words = f"{count} since the driver was loaded"
        found = (Fault(uuids[0], Trouble.ECC, words),) if count else ()
        monkeypatch.setattr(watch._gpus, "faults", lambda held: found)
        watch.look({})
        return [told.detail for told in watch.all()]

    assert look(2, watch) == ["2 since the driver was loaded"]
    assert look(3, watch) == ["3 since the driver was loaded"], "a new trouble, at a new time"
    watch.clear(uuids[0])
    assert look(3, watch) == [] == look(3, make(tmp_path)[0])
    assert look(4, watch) == ["4 since the driver was loaded"]
    watch.clear(uuids[0])
    assert look(0, watch) == [], "the driver was loaded anew"
    assert look(4, watch) == ["4 since the driver was loaded"]


def test_what_is_known_can_be_asked_while_the_driver_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, faults, uuids = make(tmp_path)
    faults.write_text('{"0": {"kind": "ecc"}}')
    watch.look({})
    hangs = threading.Event()
    monkeypatch.setattr(watch._gpus, "faults", lambda held: (hangs.wait(30), ())[1])
    looking = threading.Thread(target=watch.look, args=({},))
    looking.start()
    assert [t.uuid for t in watch.all()] == uuids[:1]
    hangs.set()
    looking.join(30)


def test_only_what_breaks_programs_after_their_start_is_blamed(tmp_path: Path) -> None:
    watch, faults, uuids = make(tmp_path)
    faults.write_text('{"0": {"kind": "ecc", "detail": "2 errors"}, "1": {"kind": "hot"}}')
    began = time.time()
    watch.look({})
    assert "2 errors" in watch.blame(uuids[:1], 1, began)
    assert watch.blame(uuids[1:], 1, began) == ""
    assert watch.blame(uuids, 1, time.time() + 1) == ""


def test_a_full_disk_is_a_trouble_of_the_node(tmp_path: Path) -> None:
    watch, *_ = make(tmp_path, least=2**40)
    watch.look({})
    assert [(t.kind, t.uuid) for t in watch.all()] == [("disk_full", "")]


def test_a_passed_check_clears_and_is_told_until_nobody_asks(tmp_path: Path) -> None:
    watch, faults, uuids = make(tmp_path)
    faults.write_text('{"0": {"kind": "xid"}, "1": {"kind": "ecc"}}')
    watch.look({})
    checks = Checks(SimulatedGpus("n", 2, "NVIDIA L4", faults), watch, lambda: None)
    faults.write_text('{"1": {"kind": "ecc"}}')
    checks.want(uuids)
    wait_until(lambda: len(checks.results()) == 2)
    assert {c.uuid: c.passed for c in checks.results()} == {uuids[0]: True, uuids[1]: False}
    assert [t.uuid for t in watch.all()] == [uuids[1]]
    checks.want(uuids[:1])
    assert [c.uuid for c in checks.results()] == uuids[:1]


def test_an_error_during_a_check_outlives_it(tmp_path: Path) -> None:
    """The small program may pass on a card that broke beside it."""
    watch, faults, uuids = make(tmp_path)
    faults.write_text('{"0": {"kind": "hot"}}')
    watch.look({})

    class BreaksMeanwhile(SimulatedGpus):
        def check_command(self, uuid: str) -> tuple[str, ...]:
            faults.write_text('{"0": {"kind": "xid", "detail": "Xid 79"}}')
            watch.look({})
            return ("true",)

    checks = Checks(BreaksMeanwhile("n", 2, "NVIDIA L4", faults), watch, lambda: None)
    checks.want(uuids[:1])
    wait_until(lambda: len(checks.results()) == 1)
    (result,) = checks.results()
    assert not result.passed and "Xid 79" in result.detail
    assert "xid" in [told.kind for told in watch.all()]


def test_memory_that_leaked_counts_once_nobody_holds_the_card(tmp_path: Path) -> None:
    watch, faults, uuids = make(tmp_path)
    faults.write_text('{"0": {"leaked_mib": 2048}}')
    watch.look({uuids[0]: 5})
    assert watch.all() == () and not watch.is_in_use(uuids)
    watch.look({})
    assert [(t.kind, t.uuid) for t in watch.all()] == [("not_released", uuids[0])]
    assert "2048 MiB" in watch.all()[0].detail and watch.is_in_use(uuids[:1])
    read = SimulatedGpus("n", 2, "NVIDIA L4", faults).sample({})
    assert read[0].memory_used_mib - read[1].memory_used_mib == 2048
    faults.unlink()
    watch.look({})
    assert watch.all() == ()


def test_what_a_check_uses_is_not_left_behind(tmp_path: Path) -> None:
    watch, faults, uuids = make(tmp_path)
    with watch.trying(uuids[0]):
        faults.write_text('{"0": {"leaked_mib": 300}, "1": {"leaked_mib": 300}}')
        watch.look({})
        assert [told.uuid for told in watch.all()] == [uuids[1]]
    watch.look({})
    assert sorted(told.uuid for told in watch.all()) == sorted(uuids[:2])
    with watch.trying(uuids[0]):  # what was left before stays so, until the check has passed
        watch.look({})
        assert watch.is_in_use(uuids[:1])


def test_a_leak_is_told_with_the_end_of_its_job_and_returns_after_a_check(
    portal: Portal, agent: Agent
) -> None:
    uuids = [device.uuid for device in SimulatedGpus("alpha", 2, "NVIDIA L4").inventory()]
    faults = agent.state / "simulated-faults.json"
    faults.write_text('{"0": {"leaked_mib": 2048}}')
    try:
        order = assignment("exit 0", device_uuids=tuple(uuids[:1]))
        report, _ = portal.outcome("alpha", order)
        assert report.end_reason == EndReason.COMPLETED  # not its fault, and it breaks nobody
        told = portal.nodes["alpha"].troubles
        assert [(t.kind, t.uuid, t.fence) for t in told] == [("not_released", uuids[0], None)]
    finally:
        faults.unlink()
    wait_until(lambda: portal.nodes["alpha"].troubles == ())
    portal.ask_check("alpha", uuids[0])
    wait_until(lambda: uuids[0] in portal.nodes["alpha"].checked)


def test_a_program_that_dies_of_its_card_is_not_to_blame(portal: Portal, agent: Agent) -> None:
    uuids = [device.uuid for device in SimulatedGpus("alpha", 2, "NVIDIA L4").inventory()]
    faults = agent.state / "simulated-faults.json"
    order = assignment("sleep 1; exit 1", device_uuids=tuple(uuids[:1]))
    portal.assign("alpha", order)
    portal.wait_for("alpha", order.fence, AttemptState.RUNNING)
    faults.write_text('{"0": {"kind": "xid", "detail": "Xid 79"}}')
    try:
        report = portal.ended("alpha", order.fence)
        assert report.end_reason == EndReason.DEVICE_FAILED and "Xid 79" in report.detail
        told = portal.nodes["alpha"].troubles
        assert [(t.kind, t.uuid, t.fence) for t in told] == [("xid", uuids[0], order.fence)]
    finally:
        faults.unlink()
    portal.ask_check("alpha", uuids[0])
    wait_until(lambda: uuids[0] in portal.nodes["alpha"].checked)
    wait_until(lambda: portal.nodes["alpha"].troubles == ())
