"""The node's three calls as a hostile or broken node would make them."""

from __future__ import annotations

import errno
import hashlib
import json
from dataclasses import replace

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from scheduler.models import Attempt, DeviceSample, JobEvent, Node, NodeEvent
from scheduler.services.nodes import issue_node_token
from scheduler.states import AttemptState
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import (
    MAX_LOG_CHUNK,
    AttemptReport,
    EnrolReply,
    LogAck,
    Refusal,
    SyncReply,
    SyncRequest,
)
from scheduler.wire.readings import DeviceSample as Sample
from tests import scenes

pytestmark = pytest.mark.django_db

REQUEST = SyncRequest(
    protocol=1,
    agent_version="0.1.0",
    agent_id="agent-1",
    boot_id="boot-1",
    seen_revision=0,
    hold_s=0,
    sent_at=0.0,
)


def call(client, path, body, secret="", **headers):
    if secret:
        headers["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    raw = body if isinstance(body, bytes) else encode(body)
    return client.post(f"/api/agent/v1{path}", raw, content_type="application/json", **headers)


def refusal(reply, status, code):
    assert reply.status_code == status, reply.content
    found = decode(Refusal, reply.content)
    assert found.code == code, found
    assert found.detail
    return found


@pytest.fixture
def enrolled(client, root, cluster):
    """A node that came in by the front door: (node, its secret)."""
    _, token = issue_node_token(actor=root, pool=cluster.pool)
    reply = call(client, "/enrol", scenes.enrol_request(token, "real", 2))
    assert reply.status_code == 201, reply.content
    found = decode(EnrolReply, reply.content)
    return Node.objects.get(pk=found.node_id), found.node_token


def test_enrolment_is_for_once(client, root, cluster):
    _, secret = issue_node_token(actor=root, pool=cluster.pool)
    request = scenes.enrol_request(secret, "fresh", 1)
    assert call(client, "/enrol", request).status_code == 201
    refusal(call(client, "/enrol", replace(request, name="again")), 403, "enrol_token_invalid")
    _, late = issue_node_token(actor=root, pool=cluster.pool, now=scenes.at(-86400 * 30))
    refusal(
        call(client, "/enrol", scenes.enrol_request(late, "late", 1)), 403, "enrol_token_invalid"
    )


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"protocol": 99}, 426),
        ({"protocol": 0}, 426),
        ({"name": "../etc"}, 422),
        ({"name": "n1"}, 409),
        ({"name": ""}, 422),
    ],
)
def test_odd_enrolments_are_refused(client, root, cluster, change, status):
    _, secret = issue_node_token(actor=root, pool=cluster.pool)
    request = replace(scenes.enrol_request(secret, "fresh", 1), **change)
    before = Node.objects.count()
    reply = call(client, "/enrol", request)
    assert reply.status_code == status, reply.content
    assert decode(Refusal, reply.content).detail
    assert Node.objects.count() == before


def test_lying_inventories_are_refused(client, root, cluster):
    """B95: a thousand GPUs, the same UUID twice, negative memory."""
    _, secret = issue_node_token(actor=root, pool=cluster.pool)
    honest = scenes.enrol_request(secret, "liar", 1)
    device = honest.devices[0]
    for devices in (
        tuple(replace(device, uuid=f"GPU-{n}", index=n) for n in range(1000)),
        (device, replace(device, index=1)),
        (replace(device, memory_mib=-1),),
        (replace(device, uuid="G" * 97),),
    ):
        reply = call(client, "/enrol", replace(honest, devices=devices))
        assert 400 <= reply.status_code < 500, reply.content
        decode(Refusal, reply.content)
    assert not Node.objects.filter(name="liar").exists()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"protocol": 1}', b"[" * 10_000, b'{"protocol": NaN}', b"\xff"]
)
def test_odd_messages_are_refused(client, enrolled, body):
    refusal(call(client, "/sync", body, enrolled[1]), 400, "malformed")
    refusal(call(client, "/enrol", body), 400, "malformed")


def test_only_a_node_token_opens_the_door(client, program, root, enrolled):
    refusal(call(client, "/sync", REQUEST), 401, "node_token_invalid")
    refusal(call(client, "/sync", REQUEST, "tya_wrong"), 401, "node_token_invalid")
    human = program(root).headers["HTTP_AUTHORIZATION"].removeprefix("Bearer ")
    refusal(call(client, "/sync", REQUEST, human), 401, "node_token_invalid")
    client.force_login(root)
    refusal(call(client, "/sync", REQUEST), 401, "node_token_invalid")
    refusal(client.get("/api/agent/v1/sync"), 405, "method_not_allowed")
    node_secret = enrolled[1]
    reply = client.get("/api/v1/jobs/", HTTP_AUTHORIZATION=f"Bearer {node_secret}")
    assert reply.status_code == 401, "a node's token opens nothing else"


def test_versions_we_do_not_speak_are_told_so(client, enrolled):
    for protocol in (0, 99):
        request = replace(REQUEST, protocol=protocol)
        refusal(call(client, "/sync", request, enrolled[1]), 426, "protocol_unsupported")


def test_an_agent_that_is_refused_is_told_of_on_its_nodes_page_once(client, enrolled, root):
    """B98: it ends for good, so somebody has to see why its node falls silent."""
    node, secret = enrolled
    for _ in range(2):
        odd = replace(REQUEST, protocol=2**40, agent_version="99" * 500)
        assert call(client, "/sync", odd, secret).status_code == 426
    (event,) = NodeEvent.objects.filter(kind="agent_refused")
    assert event.detail["reason"].startswith("its agent is 9999")
    client.force_login(root)
    page = client.get(f"/cluster/nodes/{node.name}/").content.decode()
    assert "Its agent was refused" in page and "protocol 32767" in page
    assert call(client, "/sync", REQUEST, secret).status_code == 200
    node.refresh_from_db()
    assert (node.protocol, node.agent_version) == (REQUEST.protocol, REQUEST.agent_version)


def test_a_sync_answers_with_what_to_run(client, enrolled, alice, project):
    node, secret = enrolled
    job = scenes.submit(alice, project)
    attempt = scenes.start(job, node)
    reply = call(client, "/sync", replace(REQUEST, hold_s=5), secret)
    assert reply.status_code == 200
    found = decode(SyncReply, reply.content)
    assert [one.fence for one in found.assignments] == [attempt.pk]

    held = replace(REQUEST, hold_s=0.3, seen_revision=found.revision)
    again = decode(SyncReply, call(client, "/sync", held, secret).content)
    assert again.revision == found.revision


def told(client, secret, fence, **facts):
    """A node's word that this attempt has ended well, and whatever else it says."""
    report = AttemptReport(fence=fence, rank=0, state=AttemptState.ENDED, exit_code=0)
    facts |= {"reports": (report,), "sent_at": timezone.now().timestamp()}
    return call(client, "/sync", replace(REQUEST, **facts), secret)


def test_a_node_that_speaks_for_another_is_shut_out(client, enrolled, cluster, alice, project):
    """B94: with the token of one node, of what runs on another. Nothing of that call is taken."""
    node, secret = enrolled
    seen_at = node.last_seen_at
    attempt = scenes.start(scenes.submit(alice, project), cluster.node(1))
    for _ in range(2):
        refusal(told(client, secret, attempt.pk, devices=()), 403, "attempt_of_another_node")
    node.refresh_from_db()
    assert (node.state, node.trouble, node.last_seen_at) == ("quarantined", "copied", seen_at)
    assert node.events.filter(kind="node_quarantined").count() == 1
    assert f"Attempt {attempt.pk} runs on another node" in node.state_reason
    assert node.devices.filter(is_present=True).exists()
    assert Attempt.objects.get(pk=attempt.pk).state == AttemptState.ASSIGNED


def test_ends_of_what_was_never_assigned_change_nothing(client, enrolled, cluster, alice, project):
    """B96: the node may drop them, as it has to where a database was put back."""
    node, secret = enrolled
    attempt = scenes.start(scenes.submit(alice, project), cluster.node(1))
    scenes.sync(cluster.node(1), scenes.ended(attempt), now=timezone.now())
    before = list(Attempt.objects.values()), list(JobEvent.objects.values())
    for fence in (attempt.pk, attempt.pk + 1, 10**12, -5):
        reply = told(client, secret, fence)
        assert reply.status_code == 200, reply.content
        assert decode(SyncReply, reply.content).forget == (fence,)
    assert (list(Attempt.objects.values()), list(JobEvent.objects.values())) == before
    node.refresh_from_db()
    assert node.state == "ready"


def test_odd_samples_are_refused_or_dropped(client, enrolled):
    """B97: NaN, someone else's device, far too many."""
    body = json.loads(encode(REQUEST))
    sample = {"uuid": "GPU-SIM-real-0", "at": 1.0, "gpu_percent": 1, "memory_used_mib": 1}
    sample |= {"power_watts": 1, "temperature_c": 1}
    raw = json.dumps({**body, "samples": [{**sample, "gpu_percent": float("nan")}]}).encode()
    refusal(call(client, "/sync", raw, enrolled[1]), 400, "malformed")
    foreign = Sample("GPU-SIM-n1-0", 1e12, 1e300, -5, -1.0, 1e9)
    reply = call(client, "/sync", replace(REQUEST, samples=(foreign,)), enrolled[1])
    assert reply.status_code in (200, 400, 422)
    assert not DeviceSample.objects.filter(device__uuid="GPU-SIM-n1-0").exists()
    huge = json.dumps({**body, "samples": [sample] * 20_001}).encode()
    assert call(client, "/sync", huge, enrolled[1]).status_code in (400, 413)


def test_log_bytes_arrive_once_and_in_order(client, enrolled, alice, project):
    node, secret = enrolled
    attempt = scenes.start(scenes.submit(alice, project), node)
    place = f"/attempts/{attempt.pk}/log?rank=0"
    ack = decode(LogAck, call(client, f"{place}&offset=0", b"hello ", secret).content)
    assert ack.size == 6
    assert decode(LogAck, call(client, f"{place}&offset=0", b"hello ", secret).content).size == 6
    gap = refusal(call(client, f"{place}&offset=9", b"x", secret), 409, "log_gap")
    assert gap.facts["expected"] == "6"
    assert decode(LogAck, call(client, f"{place}&offset=3", b"lo world", secret).content).size == 11


def test_log_bytes_that_are_not_those_of_their_digest_are_sent_again(
    client, enrolled, alice, project
):
    node, secret = enrolled
    attempt = scenes.start(scenes.submit(alice, project), node)
    digest = hashlib.sha256(b"hello ").hexdigest()
    place = f"/attempts/{attempt.pk}/log?rank=0&offset=0&sha256={digest}"
    again = refusal(call(client, place, b"hellp ", secret), 409, "log_damaged")
    assert again.facts["expected"] == "0"
    assert attempt.placements.get().log_size == 0
    assert decode(LogAck, call(client, place, b"hello ", secret).content).size == 6


def test_a_full_disk_is_told_to_try_again_and_loses_nothing(
    client, enrolled, alice, project, monkeypatch
):
    node, secret = enrolled
    attempt = scenes.start(scenes.submit(alice, project), node)
    place = f"/attempts/{attempt.pk}/log?rank=0&offset=0"

    def full(name, content, **_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(default_storage, "save", full)
        refusal(call(client, place, b"hello", secret), 503, "unavailable")
    assert decode(LogAck, call(client, place, b"hello", secret).content).size == 5


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("?rank=0", 400),
        ("?rank=-1&offset=0", 400),
        ("?rank=0&offset=1e3", 400),
        ("?rank=0&rank=1&offset=0", 400),
        ("?rank=0&offset=%EF%BC%91", 400),
        ("?rank=7&offset=0", 404),
        ("?rank=999999999999&offset=0", 404),
        ("?rank=0&offset=9999999999999999999999", 400),
    ],
)
def test_odd_log_addresses_are_refused(client, enrolled, alice, project, query, status):
    node, secret = enrolled
    attempt = scenes.start(scenes.submit(alice, project), node)
    reply = call(client, f"/attempts/{attempt.pk}/log{query}", b"x", secret)
    assert reply.status_code == status, reply.content
    decode(Refusal, reply.content)


def test_another_nodes_log_and_too_much_are_refused(client, enrolled, cluster, alice, project):
    attempt = scenes.start(scenes.submit(alice, project), cluster.node(1))
    place = f"/attempts/{attempt.pk}/log?rank=0&offset=0"
    refusal(call(client, place, b"x", enrolled[1]), 404, "not_found")
    refusal(call(client, place, b"x" * (MAX_LOG_CHUNK + 1), enrolled[1]), 413, "too_large")
    refusal(
        call(client, f"/attempts/{10**25}/log?rank=0&offset=0", b"", enrolled[1]), 404, "not_found"
    )
