"""The server commits and the reply is lost: repeated calls make nothing twice."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from portal.bench.figures import nodes_of, spec
from portal.bench.outages import running_agents
from portal.bench.witness import SCRIPT, make_witness_folder, read_starts, wait_for_all
from portal.embedded.temporary import temporary_stack
from scheduler.agent.config import read_identity, write_identity
from tests.flows.cutting_proxy import cutting_proxy

pytestmark = [pytest.mark.stack, pytest.mark.timeout(240)]


def _jobs_named(stack, name):
    with stack.api() as api:
        found = api.get("/jobs/", params={"text": name, "limit": 100}).json()["items"]
    return sorted(job["id"] for job in found)


def test_a_submit_whose_reply_is_lost_is_repeated_and_makes_one_job(stack):
    swallowed = iter([True, True])
    document = {**spec("lost-reply", script="true"), "hold": True}
    with cutting_proxy(stack.address, lambda: next(swallowed, False)) as proxy:
        for attempt in range(3):
            headers = {**stack.api().headers, "Idempotency-Key": "lost-reply"}
            with httpx.Client(
                base_url=f"{proxy.address}/api/v1", headers=headers, timeout=30
            ) as api:
                if attempt < 2:
                    with pytest.raises(httpx.RemoteProtocolError):
                        api.post("/jobs/", json=document)
                else:
                    reply = api.post("/jobs/", json=document)
    assert (reply.status_code, _jobs_named(stack, "lost-reply")) == (200, [reply.json()["id"]])


def test_the_same_submit_many_times_at_once_makes_one_job(stack):
    document = {**spec("at-once", script="true"), "hold": True}

    def submit(_number):
        with stack.api() as api:
            return api.post("/jobs/", json=document, headers={"Idempotency-Key": "at-once"})

    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(submit, range(24)))
    assert {reply.status_code for reply in replies} == {200, 201}
    assert [reply.status_code for reply in replies].count(201) == 1
    assert _jobs_named(stack, "at-once") == sorted({reply.json()["id"] for reply in replies})


def test_a_bulk_whose_reply_is_lost_is_repeated_and_makes_each_job_once(stack):
    swallowed = iter([True])
    documents = [{**spec("lost-bulk", script="true"), "hold": True} for _ in range(20)]
    headers = {**stack.api().headers, "Idempotency-Key": "lost-bulk"}
    with (
        cutting_proxy(stack.address, lambda: next(swallowed, False)) as proxy,
        httpx.Client(base_url=f"{proxy.address}/api/v1", headers=headers, timeout=30) as api,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            api.post("/jobs/bulk/", json={"jobs": documents})
        ids = api.post("/jobs/bulk/", json={"jobs": documents}).raise_for_status().json()["ids"]
    assert _jobs_named(stack, "lost-bulk") == sorted(ids)
    assert len(set(ids)) == 20


def test_nodes_whose_replies_are_lost_start_each_job_once_and_ship_whole_logs():
    dice = random.Random(7)
    nodes = nodes_of(1, 4)
    with (
        temporary_stack(tell=print, nodes=nodes, runs_agents=False) as stack,
        cutting_proxy(stack.address, lambda: dice.random() < 0.3) as proxy,
    ):
        folder = make_witness_folder(stack.places.state.parent)
        place = stack.places.node(nodes[0].name)
        write_identity(place, replace(read_identity(place), server=proxy.address))
        script = SCRIPT.format(folder=folder, seconds=0.2)
        script += "for n in 1 2 3 4 5 6 7 8; do echo line $n; sleep 0.2; done\n"
        headers = {"Authorization": f"Bearer {stack.api_tokens['alice']}"}
        with (
            running_agents(stack, nodes),
            httpx.Client(base_url=f"{stack.address}/api/v1", headers=headers, timeout=90) as api,
        ):
            sent = [spec(f"cut-{number}", script=script) for number in range(12)]
            jobs = api.post("/jobs/bulk/", json={"jobs": sent}).raise_for_status().json()["ids"]
            ends = wait_for_all(api, jobs)
            logs = [api.get(f"/jobs/{job}/log/").json()["lines"] for job in jobs]
        starts = read_starts(folder)
    assert ends == dict.fromkeys(jobs, "succeeded")
    assert sorted(start.job for start in starts) == sorted(jobs)
    assert logs == [[f"line {number}" for number in range(1, 9)]] * 12
    assert proxy.cut > 20
