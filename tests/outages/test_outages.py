"""Whole programs killed without a word: nothing acknowledged is lost, nothing runs twice."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from portal.bench import kill, takeover
from portal.bench.figures import client, nodes_of, spec
from portal.bench.outages import kill_control_plane, restart, running_agents
from portal.bench.witness import (
    SCRIPT,
    Start,
    make_witness_folder,
    read_starts,
    verdict,
    wait_for_all,
)
from portal.embedded.temporary import temporary_stack


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_everything_but_the_jobs_is_killed_after_the_last_accepted_one():
    """Portal, schedulers, broker and agents at once; the next test and torture spare the agents."""
    figures = kill.run(
        {
            "jobs": 12,
            "nodes": 2,
            "gpus_per_node": 2,
            "seconds": 1.5,
            "agents": True,
            "database": "sqlite",
        }
    )
    assert figures["acknowledged"] == 12
    assert (figures["lost"], figures["doubled"], figures["unasked"]) == (0, 0, 0)
    # The kill found some at work and some waiting, or it has shown nothing.
    assert 0 < figures["started_before_kill"] < 12
    assert 0 < figures["recovery_s"] <= figures["last_end_s"]


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_submits_in_flight_at_the_kill_are_repeated_and_make_one_job_each():
    nodes, count = nodes_of(2, 4), 40
    with (
        temporary_stack(tell=print, nodes=nodes, runs_agents=False) as stack,
        running_agents(stack, nodes),
    ):
        folder = make_witness_folder(stack.places.state.parent)
        script = SCRIPT.format(folder=folder, seconds=0.3)

        def submit(number):
            """The job's number; None where no answer came."""
            key = {"Idempotency-Key": f"in-flight-{number}"}
            document = spec(f"in-flight-{number}", script=script)
            with client(stack) as api, contextlib.suppress(httpx.TransportError):
                return (
                    api.post("/jobs/", json=document, headers=key).raise_for_status().json()["id"]
                )

        with ThreadPoolExecutor(8) as pool:
            first = [pool.submit(submit, number) for number in range(count)]
            while sum(each.done() for each in first) < 10:
                time.sleep(0.005)
            kill_control_plane(stack)
        acknowledged = [each.result() for each in first]
        restart(stack)
        again = [submit(number) for number in range(count)]
        with client(stack) as api:
            states = wait_for_all(api, again)
            known = api.get("/jobs/", params={"text": "in-flight", "limit": 100}).json()["items"]
        starts = read_starts(folder)
    assert None in acknowledged
    assert all(old in (None, new) for old, new in zip(acknowledged, again, strict=True))
    assert sorted(job["id"] for job in known) == sorted(again)
    assert verdict(again, states, starts) == {"lost": 0, "doubled": 0, "unasked": 0}


@pytest.mark.stack
@pytest.mark.timeout(240)
def test_a_killed_scheduler_is_replaced_within_ten_seconds():
    figures = takeover.run({"rounds": 1, "database": "sqlite"})
    assert (figures["acknowledged"], figures["lost"], figures["doubled"]) == (17, 0, 0)
    assert 0 < figures["max_s"] <= 10


def test_the_verdict_counts_what_the_jobs_wrote_not_what_the_portal_says():
    starts = [Start(1, 1, 0.0), Start(2, 1, 0.0), Start(2, 2, 9.0), Start(5, 1, 0.0)]
    states = {1: "succeeded", 2: "succeeded", 3: "succeeded", 4: "unknown", 5: "failed"}
    # 3 never started, 4 is unknown, 5 failed, 2 ran twice, and nobody acknowledged 6.
    found = verdict([1, 2, 3, 4, 5], states, [*starts, Start(6, 1, 0.0)])
    assert found == {"lost": 3, "doubled": 1, "unasked": 1}
    assert verdict([1, 1], {1: "succeeded"}, [Start(1, 1, 0.0)])["lost"] == 1


def test_each_start_is_read_from_its_own_line(tmp_path):
    (tmp_path / "7").write_text("7 1 1500000000\n7 2 2500000000\n")
    (tmp_path / "8").write_text("8 1 1000000000\n")
    starts = sorted(read_starts(tmp_path), key=lambda start: (start.job, start.attempt))
    assert starts == [Start(7, 1, 1.5), Start(7, 2, 2.5), Start(8, 1, 1.0)]
