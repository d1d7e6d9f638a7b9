"""How often somebody may call: 429 with Retry-After, for each caller by itself."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest
import redis
from django.core.cache import cache

from accounts.bounds.networks import network_of
from portal import limits
from portal.limits.memory import Buckets
from portal.limits.rates import Rate
from portal.limits.shared import AGAIN_S, PREFIX, SharedBuckets
from portal.settings import limits as defaults
from tests.api.conftest import problem_of
from tests.api.test_agent import REQUEST, call, enrolled, refusal

__all__ = ["enrolled"]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _anew():
    limits.forget()
    yield
    limits.forget()


def _allow(settings, **most):
    settings.CALLS_PER_MINUTE = {**settings.CALLS_PER_MINUTE, **most}


A_SECOND = Rate(60, 60)


def test_a_bucket_holds_a_minute_and_fills_evenly():
    clock = [100.0]
    found = Buckets(lambda: clock[0])
    assert [found.wait_s("a", A_SECOND) for _ in range(61)] == [0] * 60 + [1]
    assert found.wait_s("b", A_SECOND) == 0
    clock[0] += 1
    looked = found.wait_s("a", A_SECOND, takes=False)
    assert (looked, found.wait_s("a", A_SECOND), found.wait_s("a", A_SECOND)) == (0, 0, 1)
    clock[0] += 3600
    assert [found.wait_s("a", A_SECOND) for _ in range(61)] == [0] * 60 + [1]
    slow = Buckets(lambda: clock[0])
    assert [slow.wait_s("a", Rate(1, 1)) for _ in range(2)] == [0, 60]
    # Six an hour, all at once, and then one every ten minutes.
    assert [slow.wait_s("f", Rate(0.1, 6)) for _ in range(7)] == [0] * 6 + [600]


def test_many_callers_do_not_fill_the_memory():
    found = Buckets(lambda: 0.0)
    for number in range(20_100):
        found.wait_s(str(number), Rate(1, 1))
    assert len(found._left) == 20_000


TYPED = ["=d", "=di", "=digits", "=dig", "=digits-base", "=digits-base"]


@pytest.mark.parametrize("where", ["memory", "store"])
def test_what_is_typed_on_is_one_search_and_a_little(where, request):
    store = SharedBuckets(request.getfixturevalue("valkey_url")) if where == "store" else Buckets()
    who, rate = uuid.uuid4().hex, Rate(0.001, 2)
    assert [store.wait_s(who, rate, text) > 0 for text in TYPED] == [False] * 6
    # Another text, and one that is much longer, are searches of their own.
    assert store.wait_s(who, rate, "=bert") > 0
    assert store.wait_s(who, rate, "=digits-base-and-much-more") > 0


def test_processes_that_share_a_store_share_the_count(valkey_url):
    one, other = SharedBuckets(valkey_url), SharedBuckets(valkey_url)
    who, rate = uuid.uuid4().hex, Rate(1, 4)
    assert [each.wait_s(who, rate) for each in (one, other, one, other)] == [0] * 4
    assert 55 <= one.wait_s(who, rate) <= 60 and 55 <= other.wait_s(who, rate) <= 60
    assert other.wait_s(who + "x", rate) == 0


def test_it_fills_in_the_store_as_in_memory(valkey_url):
    store, who = SharedBuckets(valkey_url), uuid.uuid4().hex
    quick = Rate(6_000, 1)
    assert store.wait_s(who, quick) == 0
    deadline = time.monotonic() + 5
    while store.wait_s(who, quick):
        assert time.monotonic() < deadline, "a hundred a second: it never filled"
    client = redis.Redis.from_url(valkey_url)
    assert 0 < client.ttl(f"{PREFIX}{who}") <= 61


def test_while_the_store_is_away_each_process_counts_and_says_so_once(valkey_url, caplog):
    clock = [0.0]
    store = SharedBuckets("unix:///nowhere/valkey.sock", lambda: clock[0])
    who, rate = uuid.uuid4().hex, Rate(1, 2)
    assert [store.wait_s(who, rate) > 0 for _ in range(3)] == [False, False, True]
    clock[0] += AGAIN_S + 1
    assert store.wait_s(who, rate) > 0
    assert caplog.text.count("the store is away") == 1
    back = SharedBuckets(valkey_url)
    store._take = back._take
    assert store.wait_s(who, rate) > 0  # not asked again yet
    clock[0] += AGAIN_S + 1
    assert store.wait_s(who, rate) == 0
    assert "in the store again" in caplog.text


def test_one_person_is_counted_by_address_and_a_customer_as_one():
    assert network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8::1") == network_of("2001:db8::2:3:4:5")
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert [network_of(f"::ffff:{one}") for one in ("192.0.2.7", "c000:208")] == [
        "192.0.2.7",
        "192.0.2.8",
    ]
    assert [network_of(odd) for odd in ("", ":", "fe80::1%eth0")] == ["", ":", "fe80::/64"]


def test_the_limits_of_the_specification_are_the_defaults():
    usual = defaults.CALLS_PER_MINUTE
    assert (usual["sign_in"], usual["submit"], usual["api"], usual["search"]) == (5, 60, 600, 30)
    assert (usual["export"] * 60, usual["socket"]) == (6, 30)
    assert defaults.CALLS_AT_ONCE == {"submit": 200, "export": 6, "invite": 60, "letter": 10}


def test_attempts_to_sign_in_are_counted_by_name_and_address(settings, client, alice):
    _allow(settings, sign_in=2)

    def attempt(name, address="192.0.2.7"):
        sent = {"login": name, "password": "wrong"}
        return client.post("/accounts/login/", sent, REMOTE_ADDR=address)

    assert [attempt(name).status_code for name in ("alice", "ALICE ", "alice")] == [200, 200, 429]
    refused = attempt("alice")
    assert 1 <= int(refused["Retry-After"]) <= 30
    assert b"too fast" in refused.content and b"Traceback" not in refused.content
    assert attempt("bob").status_code == attempt("alice", "192.0.2.8").status_code == 200
    assert client.get("/accounts/login/").status_code == 200


def test_the_other_limits_of_signing_in_are_told_alike(client, alice):
    """allauth's own: thirty attempts a minute from one address, whatever the names."""
    cache.clear()
    path, blank = "/accounts/login/", {"login": "x", "password": ""}
    sent = [client.post(path, blank) for _ in range(31)]
    cache.clear()
    assert (sent[29].status_code, sent[30].status_code, sent[30]["Retry-After"]) == (200, 429, "60")
    assert b"Error 429" in sent[30].content


def test_the_api_refuses_one_caller_and_not_the_next(settings, program, alice, bob):
    _allow(settings, api=3)
    hers = program(alice)
    assert [hers.get("/me/").status_code for _ in range(4)] == [200, 200, 200, 429]
    reply = hers.get("/me/")
    problem_of(reply, 429, "throttled")
    assert 1 <= int(reply["Retry-After"]) <= 21
    assert program(bob).get("/me/").status_code == 200
    # From another address she is counted by herself.
    assert hers.get("/me/", REMOTE_ADDR="192.0.2.9").status_code == 200


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
    assert [client.get(f"/search/?q={q}").status_code for q in "abc"] == [200, 200, 429]
    assert client.get("/jobs/1/logs/find/?q=d").status_code == 429
    assert client.get("/jobs/?part=csv").status_code == 200
    refused = client.get("/usage/?format=csv")
    assert refused.status_code == 429 and 1 <= int(refused["Retry-After"]) <= 60
    assert b"You ask for this too fast. Try again in" in refused.content
    assert client.get("/usage/").status_code == 200
    problem_of(program(alice).get("/finance/reports/usage/file/"), 429, "throttled")
    client.force_login(bob)
    assert client.get("/search/?q=a").status_code == 200


def test_a_node_that_calls_all_the_time_is_told_to_wait(settings, client, enrolled):
    """B99."""
    _allow(settings, node=2)
    for _ in range(2):
        assert call(client, "/sync", REQUEST, enrolled[1]).status_code == 200
    reply = call(client, "/sync", replace(REQUEST, hold_s=0), enrolled[1])
    refusal(reply, 429, "too_many_calls")
    assert int(reply["Retry-After"]) >= 1
