"""Agents of protocols 1 and 2, as they spoke: their whole bodies, and what they need to be told."""

from __future__ import annotations

import json
import time

import pytest
from django.utils import timezone

from scheduler.models import Job, Node
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes import issue_node_token
from tests import scenes

pytestmark = [pytest.mark.django_db, pytest.mark.once]

HOST = {"cpus": 8, "memory_mib": 32_000, "scratch_mib": 90_000, "address": "10.0.0.9"}
HOST |= {"kernel": "6.1", "driver": "535"}
CARD = {"uuid": "GPU-old-0", "index": 0, "model": "NVIDIA L4", "memory_mib": 24_000}
CARD |= {"link_group": "", "simulated": False}
SAMPLE = {"uuid": "GPU-old-0", "at": 1.0, "gpu_percent": 50.0, "memory_used_mib": 100}
SAMPLE |= {"power_watts": 60.0, "temperature_c": 50.0}
# What an agent of each protocol said beyond that, in every call of its life.
SAYS = {1: {}, 2: {"troubles": [], "checks": [], "takes_kept": True}}

# Fields without which an agent of either protocol takes an answer for garbage.
OF_REPLY = {"protocol", "revision", "node_state"}
OF_ASSIGNMENT = {"fence", "job_id", "job_name", "team", "project", "attempt_number", "rank"}
OF_ASSIGNMENT |= {"addresses", "device_uuids", "launch"}
OF_LAUNCH = {"command", "env", "working_dir", "code", "processes_per_node", "cpus", "memory_mib"}
OF_LAUNCH |= {"time_limit_s", "checkpoint_dir", "stop_signal", "stop_grace_s"}
NODE_STATES = {"ready", "silent", "draining", "drained", "quarantined", "lost", "retired"}


class OldAgent:
    """Speaks plain JSON, with none of the messages that this version has."""

    def __init__(self, client, protocol, token):
        self.client, self.protocol, self.secret = client, protocol, ""
        body = {"token": token, "name": "old", "protocol": protocol, "agent_version": "0.0.9"}
        body |= {"boot_id": "boot-1", "host": HOST, "devices": [CARD]}
        self.secret = self.call("/enrol", body)["node_token"]

    def call(self, path, body):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        bearer = {"HTTP_AUTHORIZATION": f"Bearer {self.secret}"} if self.secret else {}
        reply = self.client.post(
            f"/api/agent/v1{path}", raw, content_type="application/json", **bearer
        )
        assert reply.status_code in (200, 201), reply.content
        return json.loads(reply.content)

    def sync(self, *reports, **more):
        body = {"protocol": self.protocol, "agent_version": "0.0.9", "agent_id": "agent-1"}
        body |= {"boot_id": "boot-1", "seen_revision": 0, "hold_s": 0, "sent_at": time.time()}
        body |= {"reports": list(reports), "samples": [SAMPLE], "host_sample": None}
        body |= {"host": HOST, "devices": [CARD], **SAYS[self.protocol], **more}
        found = self.call("/sync", body)
        assert set(found) >= OF_REPLY and found["node_state"] in NODE_STATES
        for one in found.get("assignments", ()):
            # One that goes on may be told by its fence alone to who has said that it takes that.
            if not (self.protocol == 2 and set(one) <= {"fence", "rank", "stop"}):
                assert set(one) >= OF_ASSIGNMENT and set(one["launch"]) >= OF_LAUNCH
        return found


@pytest.mark.parametrize("protocol", [1, 2])
def test_an_older_agent_is_enrolled_given_work_stopped_and_believed(
    client, root, alice, project, cluster, protocol
):
    _, token = issue_node_token(actor=root, pool=cluster.pool)
    agent = OldAgent(client, protocol, token)
    node = Node.objects.get(name="old")
    job, next_job = (scenes.submit(alice, project) for _ in range(2))
    fence = scenes.start(job, node).pk

    (told,) = agent.sync()["assignments"]
    assert (told["fence"], told["device_uuids"]) == (fence, ["GPU-old-0"])
    going = {"fence": fence, "rank": 0, "started_at": 2.0, "log_size": 0, "detail": ""}
    agent.sync({**going, "state": "running"})
    job.refresh_from_db()
    assert job.state == "running"
    ack = agent.call(f"/attempts/{fence}/log?rank=0&offset=0", b"hello\n")
    assert ack["size"] == 6
    over = {"state": "ended", "ended_at": 3.0, "exit_code": 0, "end_reason": "completed"}
    found = agent.sync({**going, **over, "log_size": 6})
    assert Job.objects.get(pk=job.pk).state == "succeeded"
    assert fence in found.get("forget", ()) or fence in agent.sync().get("forget", ())

    fence = scenes.start(next_job, node, now=timezone.now()).pk
    agent.sync({**going, "fence": fence, "state": "running"})
    cancel_job(actor=alice, job=Job.objects.get(pk=next_job.pk))
    (told,) = agent.sync({**going, "fence": fence, "state": "running"})["assignments"]
    assert told["stop"]["reason"] == "cancelled_by_user"
    over |= {"exit_code": 143, "end_reason": "cancelled_by_user"}
    agent.sync({**going, **over, "fence": fence})
    assert Job.objects.get(pk=next_job.pk).state == "cancelled"
