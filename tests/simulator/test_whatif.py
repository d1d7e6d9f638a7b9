"""Nodes that fail, teams that share, and the same jobs in another setting."""

from __future__ import annotations

import json

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from scheduler.engine.policy import Order, Policy
from scheduler.engine.snapshot import floats, ints
from scheduler.simulator.changes import ChangeInvalid, changed
from scheduler.simulator.events import ClusterEvent, Happening, parse_event
from scheduler.simulator.replay import ReplayStuck, replay
from scheduler.simulator.teams import Teams
from scheduler.simulator.whatif import Setting, compare, measure, run_in
from scheduler.simulator.workload import Workload

FIFO = Policy(head_patience_s=0, backfill_slack_s=0)
FAIR = Policy(order=Order.FAIR, head_patience_s=0, backfill_slack_s=0)


def work(*jobs: tuple[float, float, int, int]) -> Workload:
    """submit, run, gpus, team; nodes of four GPUs."""
    submit, run, gpus, team = zip(*jobs, strict=True)
    return Workload(4, floats(submit), floats(run), floats(run), ints(gpus), team=ints(team))


def test_a_lost_node_takes_the_work_of_its_jobs_along() -> None:
    events = (parse_event("lose:0@60"), ClusterEvent(200, Happening.RESTORE, 0))
    outcome = replay(work((0, 100, 4, 0)), 1, FIFO, events=events)
    assert outcome.end_s.tolist() == [300]
    assert (outcome.failures, outcome.held_s.tolist()) == (1, [160])
    assert outcome.waited_s.tolist() == [140]


def test_a_drained_node_lets_its_jobs_end_and_takes_no_more() -> None:
    jobs = work((0, 100, 4, 0), (10, 100, 4, 0))
    events = (parse_event("drain:0@50"), parse_event("restore:0@500"))
    assert replay(jobs, 1, FIFO, events=events).end_s.tolist() == [100, 600]
    with pytest.raises(ReplayStuck):
        replay(jobs, 1, FIFO, events=events[:1])


def test_a_weight_shifts_the_share_and_a_maximum_holds() -> None:
    jobs = work(*[(n * 1e-3, 100, 4, n % 2) for n in range(8)])
    teams = Teams.equal(("a", "b"))
    equal = replay(jobs, 1, FAIR, teams=teams).end_s
    heavy = Teams(("a", "b"), (1.0, 100.0), (0, 0), (-1, -1))
    favoured = replay(jobs, 1, FAIR, teams=heavy).end_s
    b = np.arange(8) % 2 == 1
    assert favoured[b].mean() < equal[b].mean()
    capped = Teams(("a", "b"), (1.0, 1.0), (0, 0), (-1, 4))
    at_once = work((0, 100, 4, 1), (0, 100, 4, 1), (0, 100, 4, 0))
    assert replay(at_once, 3, FAIR, teams=capped).end_s.tolist() == [100, 200, 100]


def test_twice_the_nodes_halve_the_queue_and_the_use() -> None:
    jobs = work(*[(0, 100, 4, 0)] * 4)
    found = compare(run_in(jobs, Setting(nodes=1)), run_in(jobs, Setting(nodes=2)), 4, (3.6,))
    assert (found["base"]["wait_p50_s"], found["changed"]["wait_p50_s"]) == (150, 50)
    assert found["base"]["utilisation"] == found["changed"]["utilisation"] == 1
    assert (found["base"]["wait_p90_s"], found["change"]["wait_p90_s"]) == (270, -170)
    assert found["base"]["cost"] == found["changed"]["cost"] == 1.6
    assert measure(jobs, Setting(nodes=1)).cost is None


def test_jain_sees_a_team_that_waits_more() -> None:
    alone = measure(work((0, 100, 4, 0), (0, 100, 4, 1)), Setting(nodes=2))
    behind = measure(work((0, 300, 4, 0), (0, 100, 4, 1)), Setting(nodes=1))
    assert alone.jain == 1
    assert behind.jain == pytest.approx((1 + 0.25) ** 2 / (2 * (1 + 0.25**2)), abs=1e-4)


def test_who_is_larger_than_its_team_may_hold_is_left_out() -> None:
    jobs = work((0, 100, 8, 0), (0, 100, 4, 0), (0, 10, 16, 0))
    teams = Teams(("a",), (1.0,), (0,), (4,))
    found = measure(jobs, Setting(nodes=2, teams=teams))
    assert (found.jobs, found.left_out) == (1, 2)


@pytest.mark.parametrize(
    "text",
    [
        "nodes=0",
        "policy=best",
        "weight:c=2",
        "weight:a=0",
        "lose:9@1",
        "explode:1@1",
        "preempt=perhaps",
        "placement=loose",
        "nodes:c=2",
    ],
)
def test_a_change_that_makes_no_sense_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ChangeInvalid) as refused:
        changed(Setting(nodes=2, teams=Teams.equal(("a", "b"))), [text])
    assert text.partition("=")[0].partition("@")[0][-1] in str(refused.value)


def test_the_command_compares_a_trace(tmp_path, capsys) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit,duration,gpus,vc\n0,100,4,a\n0,100,4,b\n0,100,64,b\n")
    arguments = ["what_if", "--trace", str(path), "--nodes", "1", "--gpus-per-node", "4"]
    call_command(*arguments, "--change", "nodes=2", "--change", "policy=fair")
    found = json.loads(capsys.readouterr().out)
    assert (found["change"]["wait_p90_s"], found["skipped"]) == (-90, 1)
    with pytest.raises(CommandError, match="no team"):
        call_command(*arguments, "--change", "weight:c=2")
