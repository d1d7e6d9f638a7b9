"""When a node is empty: by limits, by what was alike, and several nodes drained at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import AuditEvent
from scheduler.models import Attempt, Job, Node
from scheduler.selectors.freeing.emptying import emptying, without_gpus
from scheduler.services.nodes import drain_node
from scheduler.states import AttemptState, EndReason, JobState, NodeState
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db
SEVERAL = "/cluster/several/"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_a_node_is_empty_at_the_limit_and_likely_when_those_alike_ended(
    root, alice, carol, project, yard
):
    now = timezone.now()
    node = yard.cluster.node(1)
    Job.objects.filter(pk=yard.running.pk).update(time_limit_s=7200)
    Attempt.objects.filter(pk=yard.attempt.pk).update(started_at=now - timedelta(minutes=10))
    nodes = list(Node.objects.all())
    found = emptying(alice, nodes, now=now)
    assert {found[one.pk].holders == () for one in nodes if one.pk != node.pk} == {True}
    assert found[node.pk].latest == now + timedelta(minutes=110)
    assert found[node.pk].likely is None  # nothing alike ran for longer than it has
    for _ in range(3):
        job = scenes.submit(alice, project, name="alike", now=now - timedelta(hours=2))
        Attempt.objects.create(
            job=job, number=1, state=AttemptState.ENDED, end_reason=EndReason.COMPLETED,
            assigned_at=now - timedelta(hours=2), started_at=now - timedelta(hours=2),
            ended_at=now - timedelta(minutes=90), released_at=now - timedelta(minutes=90),
        )  # fmt: skip
        over = {"state": JobState.SUCCEEDED, "ended_at": now - timedelta(minutes=90)}
        Job.objects.filter(pk=job.pk).update(**over)
    mine, theirs = (emptying(who, [node], now=now)[node.pk] for who in (alice, carol))
    assert mine.likely == theirs.likely == now + timedelta(minutes=20)
    assert (mine.last.job, theirs.last.job, theirs.last.name) == (yard.running.pk, 0, "")


def test_who_asked_for_no_gpu_is_there_as_well(alice, project, yard):
    now, node = timezone.now(), yard.cluster.node(2)
    job = scenes.submit(alice, project, gpus_per_node=0, time_limit="2h")
    attempt = scenes.start(job, node, now=now)
    (holder,) = emptying(alice, [node], now=now)[node.pk].holders
    assert (holder.job, holder.gpus, holder.latest) == (job.pk, 0, now + timedelta(hours=2))
    assert without_gpus([node, yard.cluster.node(1)]) == {node.pk: 1}
    scenes.sync(node, scenes.ended(attempt), now=now)
    assert emptying(alice, [node], now=now)[node.pk].holders == ()
    assert without_gpus([node]) == {}


def test_the_list_of_nodes_counts_who_asked_for_no_gpu_whoever_looks(client, alice, carol, yard):
    job = scenes.submit(alice, yard.running.project, gpus_per_node=0)
    scenes.start(job, yard.cluster.node(1), now=timezone.now())
    alone = scenes.submit(alice, yard.running.project, gpus_per_node=0)
    scenes.start(alone, yard.cluster.node(2), now=timezone.now())
    for person in (alice, carol):
        client.force_login(person)
        page = client.get("/cluster/nodes/").content.decode()
        assert page.count("and 1 without GPUs") == 1 and page.count(">1 without GPUs") == 1


def test_a_job_on_several_nodes_is_one(client, operator, alice, project, root):
    cluster = scenes.build_cluster(root, nodes=2, gpus=1)
    job = scenes.submit(alice, project, nodes=2, now=timezone.now())
    scenes.start(job, *cluster.nodes, now=timezone.now())
    client.force_login(operator)
    page = client.get(SEVERAL, {"node": ["n1", "n2"]}).content.decode()
    assert "2 of 2 GPUs held<" in page and "1 job there<" in page


def test_several_nodes_drain_and_resume_each_by_itself(
    client, operator, yard, django_assert_max_num_queries
):
    client.force_login(operator)
    client.get(SEVERAL, {"node": ["n1"]})
    one = client.get(SEVERAL, {"node": ["n1"]}).content.decode()
    assert "<h1>Drain 1 node<" in one and 'aria-current="page">n1<' in one
    for names in (["n1"], ["n1", "n2", "n9"]):
        with django_assert_max_num_queries(9):  # 4 for who asks, may what, is told
            page = client.get(SEVERAL, {"node": names})
    assert "no node n9" in page.content.decode() and "at the latest" in page.content.decode()
    assert not page.context["may_resume"] and "Resume 2 nodes" not in page.content.decode()
    bare = client.post(SEVERAL, {"node": ["n1", "n2"], "action": "drain"})
    assert bare.status_code == 422 and set(states()) == {NodeState.READY}
    Node.objects.filter(name="n2").update(state=NodeState.RETIRED)
    asked = {"node": ["n1", "n2"], "action": "drain", "reason": "fans"}
    assert client.post(SEVERAL, asked).status_code == 302
    assert states() == [NodeState.DRAINING, NodeState.RETIRED]
    assert AuditEvent.objects.filter(action="node.drain").count() == 1
    assert "Resume 1 node<" in client.get(SEVERAL, {"node": ["n1", "n2"]}).content.decode()
    client.post(SEVERAL, {"node": ["n1"], "action": "resume"})
    assert states() == [NodeState.READY, NodeState.RETIRED]


def test_which_nodes_take_no_work_yet_is_said_where_several_are_resumed(
    client, operator, root, yard
):
    client.force_login(operator)
    for number in range(3, 9):
        scenes.add_node(yard.cluster, f"n{number}", 1)
    for node in Node.objects.all():
        drain_node(actor=root, node=node, reason="fans")
    full = {"kind": "disk_full", "detail": "3 MiB are left"}
    Node.objects.filter(name="n1").update(own_trouble=full)
    Node.objects.filter(name="n2").update(state=NodeState.SILENT)
    Node.objects.filter(name="n3").update(state=NodeState.LOST, own_trouble=full)
    sent = {"node": [node.name for node in Node.objects.all()], "action": "resume"}
    page = client.post(SEVERAL, sent, follow=True).content.decode()
    assert states()[:3] == [NodeState.QUARANTINED, NodeState.SILENT, NodeState.LOST]
    assert set(states()[3:]) == {NodeState.READY}
    assert "Node n1 returns by itself once this is over: the disk is full (3 MiB are left)." in page
    assert "Node n2 takes work again once it is heard." in page
    assert "Node n3 takes work again once it is heard and well." in page
    assert f"{len(states()) - 3} nodes: each takes work again." in page
    Node.objects.update(state=NodeState.SILENT, trouble="", own_trouble=None)
    page = client.post(SEVERAL, sent, follow=True).content.decode()
    assert f"And {len(states()) - 5} more." in page and "each takes work again" not in page


def states() -> list[str]:
    return list(Node.objects.order_by("name").values_list("state", flat=True))
