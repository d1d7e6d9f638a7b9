"""Real programs report checkpoints over HTTP, on a Unix socket that their agent listens on."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.runtime.checkpoints import MAX_PATH
from scheduler.states import EndReason
from scheduler.wire.messages import StopOrder
from tests.agent.conftest import Agent, assignment, wait_until
from tests.agent.portal import Portal
from tests.agent.test_checkpoints import confirmed
from tests.agent.test_sandbox import needs_sandbox

# Reports what its arguments say; the first is the name of the checkpoint that it writes.
TELL = """#!/usr/bin/python3
import hashlib, http.client, json, os, socket, sys, time
folder, place = os.environ["TRAINYARD_CHECKPOINT_DIR"], os.environ["TRAINYARD_CHECKPOINT_SOCKET"]

def call(body, method="POST", path="/checkpoint"):
    link = http.client.HTTPConnection("job", timeout=20)
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.connect(place)
    link.request(method, path, body)
    answer = link.getresponse()
    print(answer.status, answer.read().decode(), flush=True)
    return answer.status

def save(step):
    with open(f"{folder}/step-{step}", "wb") as target:
        target.write(b"weights")
    digest = hashlib.sha256(b"weights").hexdigest()
    return {"path": f"step-{step}", "step": step, "bytes": 7, "digest": f"sha256:{digest}"}

"""


@pytest.fixture(scope="module")
def agent(agents: Any) -> Agent:
    """Both kinds of jobs: in a sandbox, and not."""
    made: Agent = agents()
    return made


def say(portal: Portal, code: str, **fields: Any) -> list[tuple[int, str]]:
    """What a program heard that is done at once."""
    _, log = portal.outcome("alpha", assignment(TELL + code, **fields))
    found = [line.split(" ", 1) for line in log.splitlines()]
    return [(int(status), json.loads(said).get("detail", "")) for status, said in found]


def reported(portal: Portal, name: str, agent: Agent) -> None:
    order = assignment(TELL + "call(json.dumps(save(5)))\ntime.sleep(300)")
    portal.assign(name, order)
    if name == "alpha":
        report = confirmed(portal, order.fence, 5)
    else:
        book = portal.nodes[name].reports
        portal.wait(lambda: order.fence in book and book[order.fence].checkpoint, what="step 5")
        report = book[order.fence]
    kept = agent.state / "checkpoints" / str(order.job_id)
    assert report.checkpoint is not None and report.checkpoint.path == f"{kept}/step-5"
    assert sorted(os.listdir(kept)) == ["checkpoint.json", "step-5"], "nothing else is left there"
    logs = portal.logs
    portal.wait(lambda: logs.get((order.fence, 0), b"").endswith(b"}\n"), what="what it was told")
    log = logs[order.fence, 0].decode()
    assert log.startswith("200 ") and json.loads(log[4:])["step"] == 5
    portal.stop_attempt(name, order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 0))
    portal.ended(name, order.fence)


def test_what_is_reported_is_confirmed_like_a_note(portal: Portal, agent: Agent) -> None:
    reported(portal, "alpha", agent)


@needs_sandbox
def test_it_is_heard_from_a_sandbox_without_a_network(portal: Portal, agents: Any) -> None:
    boxed = agents("boxed", "--isolation", "sandbox", "--sandbox-network", "none")
    reported(portal, "boxed", boxed)


def test_wrong_reports_name_what_to_do_and_leave_no_note(portal: Portal, agent: Agent) -> None:
    code = f"""
note = save(5)
call("")
call("[1]")
call("no json")
for name, value in (("path", "../x"), ("path", "gone"), ("path", "x" * {MAX_PATH + 1}),
                    ("step", -1), ("bytes", 8), ("digest", "md5:1"), ("digest", None)):
    call(json.dumps({{**note, name: value}}))
call("x" * 4097)
call(None, "GET")
call(json.dumps(note), path="/")
print("404", json.dumps({{"detail": os.listdir(folder)}}))
"""
    heard = say(portal, code)
    assert [status for status, _ in heard] == [422] * 10 + [413, 405, 404, 404]
    words = [
        "is empty",
        "must be an object",
        "not JSON",
        "outside the",
        "No such file",
        "path must",
    ]
    words += ["step must be", "the note says 8", "digest must be", "digest missing", "longer than"]
    for (_, said), expected in zip(heard, words, strict=False):
        assert expected in said
    assert heard[-1][1] == ["step-5"]  # type: ignore[comparison-overlap]


def test_of_a_gang_the_first_rank_alone_is_heard(portal: Portal, agent: Agent) -> None:
    order = assignment(
        TELL + "call(json.dumps(save(5)))", rank=1, addresses=("127.0.0.1",) * 2, master_port=29511
    )
    portal.assign("alpha", order)
    portal.ended("alpha", order.fence)
    assert b"rank 1 is not looked at" in portal.logs[order.fence, 1]


def test_who_is_slow_holds_up_no_other_and_has_two_calls_at_a_time(
    portal: Portal, agent: Agent
) -> None:
    slow = """
held = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for one in held:
    one.connect(place)
    one.sendall(b"POST /checkpoint HTTP/1.1\\r\\n")
time.sleep(0.3)
call("{}")
time.sleep(300)
"""
    order = assignment(TELL + slow)
    portal.assign("alpha", order)
    portal.wait(lambda: b"503 " in portal.logs[order.fence, 0], what="that it has to wait")
    assert b"wait for one to end" in portal.logs[order.fence, 0]
    reported(portal, "alpha", agent)
    portal.stop_attempt("alpha", order.fence, StopOrder(EndReason.CANCELLED_BY_USER, 0))
    portal.ended("alpha", order.fence)


def test_who_is_no_process_of_a_job_is_not_heard(portal: Portal, agent: Agent) -> None:
    link = http.client.HTTPConnection("job", timeout=20)
    link.sock = socket.socket(socket.AF_UNIX)
    place = agent.state / "reports" / "socket"
    wait_until(place.exists)
    link.sock.connect(str(place))
    link.request("POST", "/checkpoint", "{}")
    answer = link.getresponse()
    assert answer.status == 403 and b"only processes of a job" in answer.read()


def test_the_next_agent_hears_what_it_adopted(portal: Portal, agent: Agent, tmp_path: Path) -> None:
    code = """
while not os.path.exists(f"{folder}/go"): time.sleep(0.05)
call(json.dumps(save(6)))
time.sleep(300)
"""
    order = assignment(TELL + "print('ready', flush=True)" + code)
    portal.assign("alpha", order)
    portal.wait(lambda: b"ready" in portal.logs[order.fence, 0], what="ready")
    agent.kill()
    agent.start()
    book = portal.nodes["alpha"]
    before = len(book.history)
    portal.wait(lambda: len(book.history) > before, what="word from the next agent")
    (agent.state / "checkpoints" / str(order.job_id) / "go").touch()
    confirmed(portal, order.fence, 6)
    portal.unlist("alpha", order.fence)
    portal.ended("alpha", order.fence)
