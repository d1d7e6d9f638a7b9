"""What people and programs send by mistake or malice: 4xx that names the field, nothing written."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from accounts.services.audit import record_refusal
from portal.api.errors import BadRequest
from portal.api.parsing import read_json
from scheduler.models import Job
from tests.api.conftest import fields_of, problem_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"name": "a", "name": "b"}', "duplicate_key"),
        (b'{"a": {"x": 1, "x": 2}}', "duplicate_key"),
        (b"[" * 10_000, "too_deep"),
        (b'{"name": "tra', "not_json"),
        (b'{"name": "a"} {"name": "b"}', "not_json"),
        (b'{"name": "a"}x', "not_json"),
        (b'{"nodes": NaN}', "not_json"),
        (b'{"nodes": Infinity}', "not_json"),
        (b'{"nodes": 1e309}', "not_json"),
        (b'{"nodes": 1_000}', "not_json"),
        (b'{"nodes": ' + b"9" * 5000 + b"}", "not_json"),
        (b'{"name": "a\\u0000b"}', "odd_text"),
        (b'{"name": "a\x00b"}', "not_json"),
        (b'{"name": "\\ud800"}', "odd_text"),
        (b'{"env": [{"x": "\\udfff"}]}', "odd_text"),
        (b'{"name": "\xff\xfe"}', "not_utf8"),
        (b"\xef\xbb\xbf{}", "not_json"),
        (b"[]", "not_an_object"),
        (b'"name"', "not_an_object"),
        (b"null", "not_an_object"),
    ],
)
def test_odd_json_is_a_400(program, alice, body, code):
    problem_of(program(alice).post("/jobs/", body), 400, code)
    assert not Job.objects.exists()


def test_a_whole_surrogate_pair_is_fine():
    assert read_json('{"name": "\\ud83d\\ude00"}') == {"name": "\U0001f600"}


def test_depth_is_refused_fast():
    deep = '{"a":' * 10_000
    began = time.perf_counter()
    with pytest.raises(BadRequest):
        read_json(deep)
    assert time.perf_counter() - began < 0.05


def test_a_large_body_is_refused_unread(program, alice):
    reply = program(alice).post("/jobs/", b'{"name": "' + b"x" * (3 << 20) + b'"}')
    problem_of(reply, 413, "too_large")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"]
)
def test_another_content_type_is_a_415(program, alice, kind):
    problem_of(program(alice).post("/jobs/", b"name=x", content_type=kind), 415)


def test_compressed_and_chunked_bodies_are_refused(program, alice):
    caller = program(alice)
    problem_of(caller.post("/jobs/", b"{}", HTTP_CONTENT_ENCODING="gzip"), 415)
    problem_of(caller.post("/jobs/", b"{}", HTTP_TRANSFER_ENCODING="chunked"), 411)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "name"),
        ({"name": "x" * 300}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a" + "\u0301" * 40}, "name"),
        ({"name": ["a"]}, "name"),
        ({"nodes": 0}, "nodes"),
        ({"nodes": -1}, "nodes"),
        ({"nodes": 2**31}, "nodes"),
        ({"nodes": 2**63}, "nodes"),
        ({"nodes": "1_000"}, "nodes"),
        ({"nodes": "\uff11"}, "nodes"),
        ({"nodes": "9" * 400}, "nodes"),
        ({"nodes": [1]}, "nodes"),
        ({"nodes": True}, "nodes"),
        ({"gpus_per_node": 1.5}, "gpus_per_node"),
        ({"gpus_per_node": 3}, "gpus_per_node"),
        ({"nodes": 3}, "nodes"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": "-1h"}, "time_limit"),
        ({"time_limit": "P1Y"}, "time_limit"),
        ({"time_limit": "36500d"}, "time_limit"),
        ({"env": {"LD_PRELOAD": "x"}}, "env"),
        ({"env": {"PATH": "x"}}, "env"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "env"),
        ({"env": {"A=B": "x"}}, "env"),
        ({"env": {f"V{n}": "x" for n in range(10_000)}}, "env"),
        ({"command": []}, "command"),
        ({"command": ["x" * 1_000_000]}, "command"),
        ({"command": "unbalanced 'quote"}, "command"),
        ({"project": "vision"}, "project"),
        ({"project": "vision/../speech"}, "project"),
        ({"project": "speech/asr"}, "project"),
        ({"pool": "nowhere"}, "pool"),
        ({"gpu_model": "H900"}, "gpu_model"),
        ({"working_dir": "../../etc"}, "working_dir"),
    ],
)
def test_a_bad_field_is_named(program, alice, other_project, cluster, spec, change, field):
    reply = program(alice).post("/jobs/", {**spec, **change})
    assert field in fields_of(problem_of(reply, 422, "spec_invalid"))
    assert not Job.objects.exists()


@pytest.mark.parametrize("field", ["owner", "state", "fence", "team_id", "nods"])
def test_fields_that_are_not_the_callers_are_listed(program, alice, cluster, spec, caplog, field):
    reply = program(alice).post("/jobs/", {**spec, field: 1})
    assert fields_of(problem_of(reply, 400, "spec_invalid")) == {field}
    assert not Job.objects.exists()
    assert (f"alice sent the fields {field}" in caplog.text) == (field != "nods")
    on_record = AuditEvent.objects.filter(action="job.refuse")
    assert [(one.actor_name, one.after) for one in on_record] == (
        [("alice", f'{{"fields":["{field}"]}}')] if field != "nods" else []
    )


def test_of_a_bulk_they_are_listed_alike(program, alice, cluster, spec):
    reply = program(alice).post("/jobs/bulk/", {"jobs": [spec, {**spec, "owner": 1}]})
    assert fields_of(problem_of(reply, 400, "spec_invalid")) == {"jobs[1].owner"}
    on_record = AuditEvent.objects.filter(action="job.refuse")
    assert [one.after for one in on_record] == ['{"fields":["owner"]}']


def test_refusals_are_on_record_once_an_hour_and_never_without_end(program, alice, cluster, spec):
    """B40, B62."""
    on_record = AuditEvent.objects.filter(action="job.refuse")
    caller = program(alice)
    for _ in range(3):
        problem_of(caller.post("/jobs/", {**spec, "mounts": ["/proc"], "owner": 1}), 400)
    (event,) = on_record
    assert event.after == '{"fields":["mounts","owner"]}' and event.request_id and event.ip
    record_refusal(actor=alice, fields=["owner", "mounts"], now=event.at + timedelta(minutes=59))
    assert on_record.all().count() == 1
    record_refusal(actor=alice, fields=["owner", "mounts"], now=event.at + timedelta(hours=2))
    assert on_record.all().count() == 2
    for number in range(30):
        record_refusal(actor=alice, fields=[f"f{number}"], now=event.at + timedelta(hours=9))
    assert on_record.all().count() == 12


def test_too_many_gpus_names_the_largest_shape(program, alice, cluster, spec):
    reply = program(alice).post("/jobs/", {**spec, "gpus_per_node": 64})
    assert "has 2 GPUs" in problem_of(reply, 422)["errors"][0]["message"]


@pytest.mark.parametrize(
    "name", ["\u202egnp.exe", "<script>alert(1)</script>", "{{7*7}}", "👩‍👩‍👧"]
)
def test_odd_but_honest_names_come_back_as_they_are(program, alice, cluster, spec, name):
    reply = program(alice).post("/jobs/", {**spec, "name": name})
    assert reply.status_code in (201, 422)
    if reply.status_code == 201:
        assert reply.json()["name"] == name
        assert reply["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("?nope=1", "nope"),
        ("?limit=1&limit=2", "limit"),
        ("?limit=0", "limit"),
        ("?limit=1000000000", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=1.5", "limit"),
        ("?limit=%EF%BC%91", "limit"),
        ("?limit=" + "9" * 400, "limit"),
        ("?state=sleeping", "state"),
        ("?text=%00", "text"),
        ("?order=password", "order"),
        ("?format=xml", "format"),
    ],
)
def test_a_bad_query_is_named(program, alice, query, field):
    assert field in fields_of(problem_of(program(alice).get(f"/jobs/{query}"), 400, "bad_query"))


def test_a_huge_query_is_refused(program, alice):
    problem_of(program(alice).get("/jobs/?text=" + "x" * 10_000), 400, "query_too_long")


@pytest.mark.parametrize(
    "query", ["?from=2026-02-30", "?from=yesterday", "?by=colour", "?from=2026-05-02&to=2026-05-01"]
)
def test_a_bad_period_is_refused(program, alice, query):
    reply = program(alice).get(f"/costs/{query}")
    assert reply.status_code in (400, 422)
    assert problem_of(reply, reply.status_code)["errors"]


@pytest.mark.parametrize("price", ["-1", "1,5", "NaN", "1e400", "0.12345678901234567890", True, []])
def test_a_bad_price_is_refused(client, root, price):
    client.force_login(root)
    body = json.dumps({"device_model": "H100", "price_per_gpu_hour": price})
    reply = client.post("/api/v1/rates/", body, content_type="application/json")
    assert reply.status_code in (400, 422)
    assert "price_per_gpu_hour" in fields_of(problem_of(reply, reply.status_code))


@pytest.mark.parametrize("method", ["put", "patch", "delete", "trace", "options"])
def test_other_methods_are_a_405(program, alice, method):
    caller = program(alice)
    reply = getattr(caller.client, method)("/api/v1/jobs/", **caller.headers)
    problem_of(reply, 405, "method_not_allowed")


def test_get_on_an_action_and_method_override_do_nothing(program, alice, cluster, spec):
    caller = program(alice)
    pk = caller.post("/jobs/", spec).json()["id"]
    problem_of(caller.get(f"/jobs/{pk}/cancel/"), 405)
    override = caller.get(f"/jobs/{pk}/", HTTP_X_HTTP_METHOD_OVERRIDE="DELETE")
    assert override.json()["state"] == "queued"
    problem_of(caller.post(f"/jobs/{pk}/cancel/", {"force": True}), 400, "unknown_field")


@pytest.mark.parametrize("path", ["/nothing/", "/jobs/x/", "/jobs", "/jobs/" + "9" * 30 + "/"])
def test_unknown_addresses_are_problems_too(program, alice, path):
    problem_of(program(alice).get(path), 404)


def test_a_broken_view_is_a_500_with_a_request_id(program, alice, monkeypatch, caplog):
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the secret detail")

    monkeypatch.setattr("portal.api.v1.jobs.page_of", broken)
    reply = program(alice).get("/jobs/", HTTP_X_REQUEST_ID="request-1234")
    found = problem_of(reply, 500, "server_error")
    assert found["request_id"] == "request-1234"
    assert "secret detail" not in reply.content.decode()
    assert "request-1234" in caplog.text
