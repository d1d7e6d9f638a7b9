"""Arrays from the command line: run, told of, run again, and waited for."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.stack, pytest.mark.once]

QUICK = ["--gpus", "1", "--memory", "128MB", "--time", "5m", "--project", "vision/digits"]


def test_arrays_run_and_failed_tasks_run_again(terminal_of):
    alice = terminal_of("alice")
    quick = [word if word != "1" else "0" for word in QUICK]
    program = 'test "$TRAINYARD_ARRAY_INDEX" != 2'
    words = ["--array", "0-3%2", "--wait", "--", "sh", "-c", program]
    done = alice.json("submit", *quick, *words, code=1)
    assert (done["state"], done["counts"]["succeeded"], done["counts"]["failed"]) == (
        "failed", 3, 1)  # fmt: skip
    number = str(done["id"])
    said, _ = alice.run("sets", "show", number)
    assert "3 succeeded, 1 failed" in said and "Cost so far: 0.00 EUR." in said
    assert number in alice.run("sets")[0]
    again = alice.json("sets", "rerun", number)
    assert (again["range"], again["rerun_of"]) == ("2", done["id"])
    assert len(alice.json("jobs", "--set", number)) == 4
    alice.json("sets", "cancel", str(again["id"]))
    alice.run("sets", "show", "987654", code=3)


def test_a_job_waits_for_an_array_and_says_how_far_it_is(terminal_of):
    alice = terminal_of("alice")
    said, told = alice.run("submit", *QUICK, "--array", "0-1", "--begin", "+1h", "--", "true")
    number = said.split()[1]
    assert said.startswith(f"Array {number} is submitted; its first task is job ")
    assert f"Wait for all its tasks: --depends-on afterok:set={number}" in told
    waits = alice.json("submit", *QUICK, "-d", f"afterany:set={number}", "--", "true")
    said, _ = alice.run("why", str(waits["id"]))
    assert f"Waits for all 2 tasks of array {number} to end." in said
    assert f"Array {number}: 0 of 2 tasks done." in said
    said, _ = alice.run("sets", "show", number)
    assert f"Waited for by job {waits['id']}." in said
    alice.run("sets", "cancel", number)
    alice.run("wait", str(waits["id"]))
    alice.run("submit", *QUICK, "-d", "afterok:set=987654", "--", "true", code=2)
    # Nodes at work: it runs once both tasks have, which take their time.
    made = alice.json("submit", *QUICK, "--array", "0-1", "--", "sleep", "2")
    words = ["-d", f"afterok:set={made['set']}", "--wait", "--", "true"]
    done = alice.json("submit", *QUICK, *words)
    assert done["state"] == "succeeded"
    ends = [one["ended_at"] for one in alice.json("jobs", "--set", str(made["set"]))]
    assert len(ends) == 2 and max(ends) <= done["started_at"]
