"""Every command against the real servers and two real agents."""

from __future__ import annotations

import concurrent.futures
import re
import signal
import time

import httpx
import pytest

pytestmark = [pytest.mark.stack, pytest.mark.once]

QUICK = ["--gpus", "1", "--memory", "128MB", "--time", "5m", "--project", "vision/digits"]


def test_login_keeps_a_token_that_works(shell, stack):
    token = stack.api_tokens["alice"]
    out, _ = shell.run("login", stack.address, "--token-file", "-", stdin=f"{token}\n")
    assert "Signed in" in out
    path = shell.home / "config" / "trainyard" / "config.json"
    assert path.stat().st_mode & 0o777 == 0o600
    me = shell.json("whoami")
    assert (me["username"], me["server"]) == ("alice", stack.address)
    assert "vision: member" in shell.run("whoami")[0]

    _, err = shell.run(
        "login", stack.address, "--token-file", "-", stdin="ty_00000000_wrong\n", code=4
    )
    assert "unknown, expired or revoked" in err
    assert "request" in err
    shell.run("whoami")  # the old login is still there


def test_a_job_from_submit_to_its_end(terminal_of):
    alice = terminal_of("alice")
    script = "for i in 1 2 3; do echo line $i; sleep 0.3; done"
    out, _ = alice.run("submit", *QUICK, "--name", "lines", "--follow", "--", "sh", "-c", script)
    assert "line 1\nline 2\nline 3\n" in out
    assert "Finished with exit code 0" in out

    number = alice.json("jobs", "--text", "lines", "--limit", "1")[0]["id"]
    assert alice.run("logs", str(number))[0] == "line 1\nline 2\nline 3\n"
    assert alice.run("logs", str(number), "--tail", "1")[0] == "line 3\n"
    assert alice.run("logs", str(number), "--json")[0].splitlines()[1] == (
        '{"line": 2, "text": "line 2"}'
    )
    assert alice.run("logs", "-f", str(number), "--exit-status")[0] == "line 1\nline 2\nline 3\n"
    assert "succeeded" in alice.run("why", str(number))[0]
    table, _ = alice.run("jobs")
    assert table.startswith("JOB")
    assert "lines" in table


def test_exit_codes_mirror_the_end(terminal_of):
    alice = terminal_of("alice")
    alice.run("submit", *QUICK, "--wait", "--", "sh", "-c", "exit 3", code=1)
    limited = [word if word != "5m" else "1s" for word in QUICK]
    alice.run("submit", *limited, "--wait", "--", "sleep", "60", code=124)
    held = alice.json("submit", *QUICK, "--hold", "--", "true")
    number = str(held["id"])
    assert held["state"] == "held"
    alice.run("wait", number, "--timeout", "0.2", code=124)
    assert alice.json("release", number)["state"] in ("queued", "starting")
    alice.run("wait", number)
    alice.run("hold", number, code=5)
    alice.run("cancel", number)  # an ended job stays as it is


def test_why_of_a_failed_job_names_line_advice_and_cost(terminal_of):
    alice = terminal_of("alice")
    script = "echo CUDA out of memory; exit 1"
    number = str(alice.json("submit", *QUICK, "--", "sh", "-c", script)["id"])
    alice.run("wait", number, code=1)
    said, _ = alice.run("why", number)
    assert "not enough resources (user_resource)" in said
    assert "rank 0, line 1: CUDA out of memory" in said
    assert "What to do: " in said
    assert "Not tried again" in said
    rules = ["--retry-on", "exit=75:3", "--retry-on", "exit=1:2:wait=1m:log=out of memory"]
    said, _ = alice.run("why", number, *rules)
    assert said.startswith("Attempt 1: The program ended with exit code 1.")
    assert "Rule 2 (exit code 1 and a line of its log): tried again after 1m, twice" in said
    _, told = alice.run("why", number, "--retry-on", "exit=0:1", code=2)
    assert "retry_rules: has a fault in rule 1: '0' is no exit code" in told


def test_a_retry_rule_ends_a_job_or_tries_it_again(terminal_of):
    alice = terminal_of("alice")
    words = ["--retries", "3", "--retry-on", "exit=64:stop", "--retry-on", "signal=SEGV:1"]
    ends = [("exit 64", "Rule 1 (exit code 64) does not let it be tried again."),
            ("kill -SEGV $$", "Rule 2 (signal SIGSEGV) has tried it again once")]  # fmt: skip
    for program, expected in ends:
        made = alice.json("submit", *QUICK, *words, "--", "sh", "-c", program)
        alice.run("wait", str(made["id"]), code=1)
        assert expected in alice.run("why", str(made["id"]))[0]


def test_following_ends_when_the_job_is_cancelled(terminal_of):
    alice = terminal_of("alice")
    number = str(alice.json("submit", *QUICK, "--", "sh", "-c", "echo up; sleep 300")["id"])
    process = alice.start("logs", "-f", number, "--exit-status")
    assert process.stdout.readline() == "up\n"
    alice.run("cancel", number)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_ctrl_c_while_waiting_is_130_and_the_job_goes_on(terminal_of):
    alice = terminal_of("alice")
    number = str(alice.json("submit", *QUICK, "--hold", "--", "true")["id"])
    process = alice.start("wait", number)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert alice.json("why", number)["state"] == "held"
    alice.run("cancel", number)


def test_files_options_and_dry_runs(terminal_of, tmp_path):
    alice = terminal_of("alice")
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: from-file\nproject: vision/digits\ntime_limit: 1:30:00\ncommand: [echo, hi]\n"
    )
    quote = alice.json("submit", str(path), "--dry-run")
    assert quote["spec"]["time_limit"] == "1h30m"
    text, _ = alice.run("submit", str(path), "--dry-run")
    assert "At most it costs" in text
    assert re.search(r"^A GPU-hour costs \d+\.\d{2,6} EUR\.$", text, re.M)
    job = alice.json("submit", str(path), "--hold", "--name", "over", "--time", "10m")
    assert (job["name"], job["time_limit_s"], job["state"]) == ("over", 600, "held")
    copy = alice.json("clone", str(job["id"]), "--set", "hold=true", "--set", "name=copy")
    assert (copy["name"], copy["cloned_from"], copy["state"]) == ("copy", job["id"], "held")
    for number in (job["id"], copy["id"]):
        assert alice.json("cancel", str(number))["state"] == "cancelled"
    first = alice.json("submit", str(path), "--hold", "--key", "cli-key-1")
    again = alice.json("submit", str(path), "--hold", "--key", "cli-key-1")
    assert first["id"] == again["id"]
    alice.run("cancel", str(first["id"]))


def test_mistakes_are_told_by_field(terminal_of, tmp_path):
    alice = terminal_of("alice")
    out, err = alice.run("submit", *QUICK, "--nodes", "400", "--", "true", code=2)
    assert out == ""
    assert "nodes:" in err
    assert "(request " in err
    path = tmp_path / "bad.yaml"
    path.write_text("name: x\nname: y\n")
    assert "appears twice" in alice.run("submit", str(path), code=2)[1]
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in alice.run("submit", str(path), "--name", "x", code=2)[1]
    alice.run("why", "999999", code=3)
    alice.run("queue", "nowhere", code=3)
    assert "operators" in alice.run("nodes", "drain", "alpha", code=4)[1]


def test_a_stranger_finds_nothing(terminal_of):
    number = str(terminal_of("alice").json("submit", *QUICK, "--hold", "--", "true")["id"])
    carol = terminal_of("carol")
    for command in ("why", "logs", "cancel", "hold", "release", "clone", "wait"):
        carol.run(command, number, code=3)
    assert number not in carol.run("jobs", "--all")[0].split()
    terminal_of("alice").run("cancel", number)


def test_nodes_and_drain(terminal_of):
    olga = terminal_of("olga")
    table, _ = olga.run("nodes")
    assert "alpha" in table
    assert "(simulated)" in table
    assert olga.json("nodes", "drain", "beta", "--reason", "fan")["state"] in (
        "draining",
        "drained",
    )
    assert olga.json("nodes", "resume", "beta")["state"] == "ready"
    assert {node["name"] for node in olga.json("nodes")} == {"alpha", "beta"}
    out, _ = olga.run("pools", "policy", "default", "fifo", "--patience", "5")
    assert "by its own policy: fifo, tight, others may be stopped, patience 5 s" in out
    assert not olga.json("pools", "policy", "default", "--follow")["has_own"]


def test_fifty_times_the_same_key_at_once_is_one_job(stack):
    """B54 against the real server and its real database."""
    spec = {
        "name": "once",
        "project": "vision/digits",
        "memory": "128MB",
        "hold": True,
        "command": ["true"],
    }
    headers = {
        "Authorization": f"Bearer {stack.api_tokens['alice']}",
        "Idempotency-Key": f"race-{time.time_ns()}",
    }

    def send(_: int) -> httpx.Response:
        return httpx.post(f"{stack.address}/api/v1/jobs/", json=spec, headers=headers, timeout=60)

    with concurrent.futures.ThreadPoolExecutor(50) as threads:
        replies = list(threads.map(send, range(50)))
    assert {reply.status_code for reply in replies} <= {200, 201}
    assert sum(reply.status_code == 201 for reply in replies) == 1
    numbers = {reply.json()["id"] for reply in replies}
    assert len(numbers) == 1
    httpx.post(f"{stack.address}/api/v1/jobs/{numbers.pop()}/cancel/", json={}, headers=headers)


def test_a_held_read_answers_within_a_moment_of_the_end(stack):
    """The long poll does not wait for its own timeout."""
    job = stack.submit(command=["sleep", "2"], memory="128MB")
    with stack.api() as api:
        began = time.monotonic()
        reply = api.get(f"/jobs/{job['id']}/", params={"wait": 30})
        took_s = time.monotonic() - began
    assert reply.json()["state"] == "succeeded"
    assert took_s < 15


def test_dependencies_and_begin_from_the_command_line(terminal_of):
    alice = terminal_of("alice")
    later = alice.json("submit", *QUICK, "--begin", "+1h", "--", "true")
    assert later["wait"]["reason"] == "begin_time"
    waits = alice.json("submit", *QUICK, "-d", f"afterany:{later['id']}", "--", "true")
    assert waits["wait"]["reason"] == "dependency_wait"
    said, _ = alice.run("why", str(waits["id"]))
    assert f"Job {later['id']} is held." in said
    alice.run("submit", *QUICK, "--begin", "+soon", "--", "true", code=2)
    alice.run("release", str(waits["id"]), code=5)
    alice.run("cancel", str(later["id"]))
    alice.run("wait", str(waits["id"]))


def test_quota_and_budgets_from_the_command_line(terminal_of, stack):
    alice = terminal_of("alice")
    period = {"valid_from": "2026-01-01T00:00:00Z", "valid_until": "2126-01-01T00:00:00Z"}
    with stack.api("admin") as api:
        made = api.post("/rules/quotas/", json={"owner": "vision", "maximum": 64})
        assert made.status_code == 200, made.text
        sent = {"owner": "vision", "gpu_hours": 5000, "enforcement": "warn", **period}
        set_ = api.post("/rules/budgets/", json=sent)
        assert set_.status_code == 200, set_.text
        try:
            out, _ = alice.run("quota", "vision")
            assert "any GPU" in out
            assert "5,000.0 h" in out
            (one,) = alice.json("quota", "vision")["quotas"]
            assert one["maximum"] == 64
            quote = alice.json("submit", "-p", "vision/digits", "--dry-run", "--", "true")
            assert [limit["whose"] for limit in quote["limits"]] == ["team vision"]
            said, _ = alice.run("submit", "-p", "vision/digits", "--dry-run", "--", "true")
            assert "Budget of team vision" in said and "; it only warns; " in said
        finally:
            assert api.delete(f"/rules/quotas/{made.json()['id']}/").status_code == 204
            gone = api.post(f"/rules/budgets/{set_.json()['id']}/remove/", json={})
            assert gone.status_code == 204


SBATCH = """#!/bin/bash
#SBATCH --job-name=from-slurm
#SBATCH --time=00:05:00
#SBATCH --mem=128M
#SBATCH --gres=gpu:1
#SBATCH --bb=capacity=1G
echo started by $0 on $(hostname) >/dev/null
echo moved
"""
TEMPLATE = """
spec: {script: "echo from a template", gpus_per_node: 1, memory: 128MiB, time_limit: 5m}
rules: {gpus_per_node: 1..1, script: locked}
"""


def test_a_script_for_sbatch_and_a_template_become_jobs(terminal_of, tmp_path):
    alice, lena = terminal_of("alice"), terminal_of("lena")
    script, told = tmp_path / "run.sbatch", tmp_path / "echo.yaml"
    script.write_text(SBATCH)
    told.write_text(TEMPLATE)
    out, err = alice.run("convert", str(script))
    assert "name: from-slurm" in out and "--bb" in err
    _, err = alice.run("submit", str(script), "--project", "vision/digits", code=2)
    assert "--bb" in err, "what would be lost is not lost unasked"
    words = ["--project", "vision/digits", "--even-if-lost", "--follow"]
    out, _ = alice.run("submit", str(script), *words)
    assert "moved\n" in out

    lena.run("templates", "create", str(told), "--name", "Echo", "--team", "vision")
    assert "vision-echo" in alice.run("templates")[0]
    word = ["submit", "--template", "vision-echo", "--project", "vision/digits"]
    out, _ = alice.run(*word, "--follow")
    assert "from a template\n" in out
    _, err = alice.run(*word, "--gpus", "2", code=2)
    assert "gpus_per_node" in err
