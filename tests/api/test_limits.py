"""How often somebody may call: 429 with Retry-After, for each caller by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portal import limits
from tests.api.conftest import problem_of
from tests.api.test_agent import REQUEST, call, enrolled, refusal  # noqa: F401

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _anew():
    limits.forget()
    yield
    limits.forget()


def _allow(settings, **most):
    settings.CALLS_PER_MINUTE = {**settings.CALLS_PER_MINUTE, **most}


def test_a_bucket_holds_a_minute_and_fills_evenly():
    clock = [100.0]
    found = limits.Buckets(60, lambda: clock[0])
    assert [found.wait_s("a") for _ in range(61)] == [0] * 60 + [1]
    assert found.wait_s("b") == 0
    clock[0] += 1
    assert (found.wait_s("a", takes=False), found.wait_s("a"), found.wait_s("a")) == (0, 0, 1)
    clock[0] += 3600
    assert [found.wait_s("a") for _ in range(61)] == [0] * 60 + [1]
    slow = limits.Buckets(1, lambda: clock[0])
    assert (slow.wait_s("a"), slow.wait_s("a")) == (0, 60)
    assert [limits.Buckets(0).wait_s("a") for _ in range(99)] == [0] * 99


def test_many_callers_do_not_fill_the_memory():
    found = limits.Buckets(1, lambda: 0.0)
    for number in range(20_100):
        found.wait_s(number)
    assert len(found._left) == 20_000


def test_the_api_refuses_one_caller_and_not_the_next(settings, program, alice, bob):
    _allow(settings, api=3)
    hers = program(alice)
    assert [hers.get("/me/").status_code for _ in range(4)] == [200, 200, 200, 429]
    reply = hers.get("/me/")
    problem_of(reply, 429, "throttled")
    assert 1 <= int(reply["Retry-After"]) <= 21
    assert program(bob).get("/me/").status_code == 200


def test_submits_have_a_limit_of_their_own(settings, client, program, alice, cluster, spec):
    _allow(settings, submit=2)
    hers = program(alice)
    assert hers.post("/jobs/", spec).status_code == 201
    first = hers.post("/jobs/bulk/", {"jobs": [spec, spec]})
    assert first.status_code == 201
    problem_of(hers.post("/jobs/", spec), 429)
    problem_of(hers.post(f"/jobs/{first.json()['ids'][0]}/clone/"), 429)
    assert hers.post("/jobs/?dry_run=1", spec).status_code == 200
    client.force_login(alice)
    page = client.post("/jobs/new/", {"name": "x"})
    assert page.status_code == 429 and int(page["Retry-After"]) >= 1
    assert b"You submit too fast" in page.content


def test_guessing_tokens_is_slowed_by_address_and_hurts_nobody_else(
    settings, client, program, alice
):
    _allow(settings, refused=2)
    good = program(alice)
    guess = {"HTTP_AUTHORIZATION": "Bearer ty_00000000_x", "REMOTE_ADDR": "203.0.113.9"}
    assert [client.get("/api/v1/me/", **guess).status_code for _ in range(3)] == [401, 401, 429]
    assert good.get("/me/").status_code == 200


def test_searches_and_files_have_limits_of_their_own(settings, client, program, alice, bob):
    _allow(settings, search=2, export=1)
    client.force_login(alice)
    assert [client.get("/search/?q=a").status_code for _ in range(3)] == [200, 200, 429]
    assert client.get("/jobs/1/logs/find/?q=a").status_code == 429
    assert client.get("/jobs/?part=csv").status_code == 200
    refused = client.get("/usage/?format=csv")
    assert refused.status_code == 429 and 1 <= int(refused["Retry-After"]) <= 60
    assert b"You ask for this too fast. Try again in" in refused.content
    assert client.get("/usage/").status_code == 200
    problem_of(program(alice).get("/finance/reports/usage/file/"), 429, "throttled")
    client.force_login(bob)
    assert client.get("/search/?q=a").status_code == 200


def test_a_node_that_calls_all_the_time_is_told_to_wait(settings, client, enrolled):  # noqa: F811
    """B99."""
    _allow(settings, node=2)
    for _ in range(2):
        assert call(client, "/sync", REQUEST, enrolled[1]).status_code == 200
    reply = call(client, "/sync", replace(REQUEST, hold_s=0), enrolled[1])
    refusal(reply, 429, "too_many_calls")
    assert int(reply["Retry-After"]) >= 1
