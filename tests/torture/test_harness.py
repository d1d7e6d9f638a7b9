"""What the harness is made of, and one whole run of it."""

from __future__ import annotations

import random
import subprocess
import time
from contextlib import suppress
from datetime import datetime

import httpx
import pytest

from portal.torture import program, reconnect
from portal.torture.aftermath import ends_by_kind, locks_still_held, recovery_by_kind
from portal.torture.faults import FAULTS
from portal.torture.history import Diary, Evidence, read_lines
from portal.torture.plants import PLANTS
from portal.torture.yard import Timers
from scheduler.spec import parse_spec

# Those of the plan of faults; 16 and 18 are jobs and cancels, 19 is a run of its own.
NUMBERS = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 17}


def test_every_kind_of_fault_of_the_plan_is_there():
    assert {fault.number for fault in FAULTS.values()} == NUMBERS
    assert all(FAULTS[kind] for plant in PLANTS.values() for kind in plant.kinds)
    assert len(PLANTS) >= 10


def test_timers_are_divided_and_stay_whole():
    usual, short = Timers(20), Timers(60)
    assert (usual.lease_s, usual.grace_s, usual.slack_s) == (3, 45, 6)
    assert (short.lease_s, short.grace_s, short.slack_s) == (3, 15, 6)
    assert usual.lost_after_s == pytest.approx(54.45)


@pytest.mark.parametrize("kind", [*program._KINDS, *program.HOSTILE])
def test_a_job_of_each_kind_is_a_job(kind, tmp_path):
    body = program.HOSTILE.get(kind) or program._KINDS[kind][1]
    sent = program.document(kind, body, random.Random(3), tmp_path, "t-1", 10.0)
    assert parse_spec(sent).name == "t-1"


def test_arrays_wait_task_for_task_and_who_rests_says_nothing_for_long(tmp_path):
    first, second = program.joined_jobs(random.Random(3), tmp_path, ("j-1", "j-2"))
    assert parse_spec(first).array and "depends_on" not in first
    waits = parse_spec(second | {"depends_on": "aftercorr:set=4"}).depends_on
    assert [one.job_set for one in waits] == [4]
    rests = program.resting_job(random.Random(3), tmp_path, "r-1")
    assert parse_spec(rests).gpus_per_node and "sleep 110" in rests["script"]


def test_a_job_is_to_be_done_by_a_moment_of_the_installations_clock(tmp_path):
    for seed in range(20):
        sent = program.draw_job(
            random.Random(seed), tmp_path, "t-1", longest_s=9.0, only=("timed",), ahead_s=7200.0
        )
        assert parse_spec(sent).finish_by_policy == sent["finish_by_policy"]
        ahead_s = datetime.fromisoformat(sent["finish_by"]).timestamp() - time.time()
        assert 7200 < ahead_s < 7200 + 31


@pytest.mark.parametrize("app", program.SESSIONS)
def test_a_session_of_each_kind_is_a_job(app, tmp_path):
    sent = program.session_job(app, random.Random(3), tmp_path, "s-1")
    assert parse_spec(sent).session.app == app


def test_a_sessions_page_says_whose_it_is_and_ends_when_told(tmp_path):
    folder, place = program.make_witness(tmp_path / "w"), tmp_path / "app.sock"
    started = play(folder, program._SESSION, TRAINYARD_SESSION_SOCKET=str(place))
    assert started.stdout.readline() == "L 7 19 0 1\n"
    transport = httpx.HTTPTransport(uds=str(place), retries=0)
    deadline = time.monotonic() + 60
    with httpx.Client(transport=transport, base_url="http://app", trust_env=False) as browser:
        first = None
        while first is None and time.monotonic() < deadline:
            with suppress(httpx.ConnectError):
                first = browser.get("/s/7/").text
        assert first == "7"
        assert browser.get("/s/7/quit").text == "7"
    started.communicate(timeout=60)
    assert started.returncode == 0
    assert [fact["kind"] for fact in program.read_witness(folder)] == ["start", "lines", "exit"]


@pytest.mark.parametrize("only", sorted({plant.jobs for plant in PLANTS.values() if plant.jobs}))
def test_a_plant_can_name_its_programs(only, tmp_path):
    dice = random.Random(1)
    sent = program.draw_job(dice, tmp_path, "t-1", longest_s=9.0, only=only)
    body = program.HOSTILE.get(only[0]) or program._KINDS[only[0]][1]
    assert body[:12] in sent["script"]


def play(folder, body, **environment):
    """Run a program as an agent would, as far as the program can tell."""
    script = program._PREAMBLE.format(witness=folder) + body
    own = {
        "PATH": "/usr/bin:/bin",
        "TRAINYARD_JOB_ID": "7",
        "TRAINYARD_ATTEMPT": "2",
        "TRAINYARD_FENCE": "19",
        "TRAINYARD_NODE_RANK": "0",
        "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b",
    }
    return subprocess.Popen(
        ["sh", "-c", script], env={**own, **environment}, stdout=subprocess.PIPE, text=True
    )


def test_a_program_writes_down_what_it_did(tmp_path):
    folder = program.make_witness(tmp_path / "w")
    said, _ = play(folder, "line; line; end 3").communicate(timeout=60)
    assert said == "L 7 19 0 1\nL 7 19 0 2\n"
    facts = program.read_witness(folder)
    assert [fact["kind"] for fact in facts] == ["start", "lines", "exit"]
    assert (facts[1]["count"], facts[2]["code"], facts[2]["fence"]) == (2, 3, 19)
    assert locks_still_held(folder / "locks") == []


def test_a_word_without_its_moment_is_as_old_as_the_file(tmp_path):
    folder = program.make_witness(tmp_path / "w")
    # Killed before it could tell the time.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/date").write_text("#!/bin/sh\nkill -9 $$\n")
    (tmp_path / "bin/date").chmod(0o755)
    began = time.time()
    ended = play(folder, "line; end 3", PATH=f"{tmp_path}/bin:/usr/bin:/bin")
    ended.communicate(timeout=60)
    facts = program.read_witness(folder)
    assert [fact["kind"] for fact in facts] == ["start", "lines", "exit"] and facts[2]["code"] == 3
    assert all(began - 1 <= fact["at"] <= time.time() + 1 for fact in facts)


def test_a_second_program_of_the_job_finds_the_locks_held(tmp_path):
    folder = program.make_witness(tmp_path / "w")
    first = play(folder, "echo here; sleep 60")
    assert first.stdout.readline() == "here\n"
    second = play(folder, "end 0", TRAINYARD_FENCE="20")
    second.communicate(timeout=60)
    first.kill()
    first.wait(timeout=60)
    first.stdout.close()  # the orphaned sleep still holds the other end
    clashes = {fact["what"] for fact in program.read_witness(folder) if fact["kind"] == "clash"}
    assert clashes == {"job-7-0", "gpu-GPU-a", "gpu-GPU-b"}


def test_recovery_is_the_time_to_the_next_start_where_it_hurt():
    tables = {
        "node": [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}],
        "placement": [
            {"attempt_id": 5, "rank": 0, "node_id": 1},
            {"attempt_id": 6, "rank": 0, "node_id": 2},
        ],
    }
    starts = [
        {"kind": "start", "at": at, "fence": fence, "rank": 0} for at, fence in ((13, 6), (15, 5))
    ]
    faults = [
        {"kind": "fault", "name": "agent-kill", "target": "n1", "at": 9, "until": 10},
        {"kind": "fault", "name": "web-kill", "target": "web", "at": 9, "until": 10},
        {"kind": "fault", "name": "cancel", "number": 18, "target": "3", "at": 9, "until": None},
    ]
    tables["job"] = [{"id": 3, "name": "t-3"}, {"id": 4, "name": "t-4"}]
    tables["attempt"] = [
        {"id": 5, "job_id": 3, "ended_at": 11.0, "end_reason": "cancelled_by_user"},
        {"id": 6, "job_id": 4, "ended_at": 12.5, "end_reason": "out_of_memory"},
    ]
    bomb = {"kind": "fault", "name": "hostile-bomb", "target": "t-4", "at": 9, "until": None}
    evidence = Evidence([*starts, *faults, {**bomb, "number": 16}], tables)
    assert recovery_by_kind(evidence) == {
        "agent-kill": {"p50": 5, "max": 5},
        "cancel": {"p50": 4, "max": 4},
        "hostile-bomb": {"p50": 0.5, "max": 0.5},
        "web-kill": {"p50": 3, "max": 3},
    }
    assert ends_by_kind(evidence) == {
        "cancel": {"cancelled_by_user": 1},
        "hostile-bomb": {"out_of_memory": 1},
    }


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [({}, True), ({"false_losses": 1}, False), ({"lost": 1}, False), ({"doubled": 1}, False)],
)
def test_a_return_of_all_is_whole_or_it_is_not(change, is_kept):
    good = {"agents": 2, "outages": {"cut off": {"back": 2}}, "false_losses": 0}
    figures = {**good, "lost": 0, "doubled": 0, **change}
    assert reconnect.is_kept(figures) == is_kept
    assert not reconnect.is_kept({**figures, "outages": {"cut off": {"back": 1}}})


def test_moments_after_a_step_are_told_by_a_clock_that_was_not_put_forward():
    evidence = Evidence(rules={"steps": [(100.0, 3600.0), (200.0, 60.0)]})
    moments = (90.0, 100.0, 150.0, 3700.0, 3790.0, 3805.0, 3860.0, 3900.0)
    told = [evidence.real(moment) for moment in moments]
    assert told == [90.0, 100.0, 100.0, 100.0, 190.0, 200.0, 200.0, 240.0]


def test_a_diary_is_read_as_it_was_written(tmp_path):
    diary = Diary(tmp_path / "history")
    diary.note("fault", name="kill", at=1.5)
    diary.note("submit", jobs=[1, 2], at=2.5)
    diary.close()
    assert read_lines(tmp_path / "history") == [
        {"kind": "fault", "at": 1.5, "name": "kill"},
        {"kind": "submit", "at": 2.5, "jobs": [1, 2]},
    ]
