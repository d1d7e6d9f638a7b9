"""A node's two calls, the one that it holds and the one with news, that come in one moment."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduler.models import Attempt, DeviceSegment, JobEvent, Node, Placement, UsageEntry
from scheduler.services.calling import together
from scheduler.services.calling.together import Call, sync_nodes
from scheduler.services.sync import sync_node
from scheduler.wire.messages import SyncRequest
from tests import scenes
from tests.scenes import at, ended, running, start, submit

pytestmark = pytest.mark.django_db

ROWS = (
    (Attempt, "job__name state end_reason started_at ended_at released_at"),
    (Placement, "attempt__job__name reported started_at ended_at exit_code"),
    (DeviceSegment, "device__uuid start_s end_s bucket cause"),
    (JobEvent, "job__name kind at from_state to_state"),
    (UsageEntry, "gpu_seconds cost period_start"),
    (Node, "name state desired_revision last_seen_at clock_skew_s"),
)


@pytest.fixture
def cluster(root):
    """Four nodes that have spoken before: from then on their calls are plain."""
    made = scenes.build_cluster(root, nodes=4, gpus=2)
    for node in made.nodes:
        scenes.sync(node)
    return made


@pytest.fixture
def attempts(cluster, alice, project):
    """One on each node."""
    return [
        start(submit(alice, project, name=node.name), node, now=at(1)) for node in cluster.nodes
    ]


@pytest.fixture
def heard_alone(monkeypatch):
    """The names of the nodes of which a call was heard by itself."""
    names = []

    def hear(*, node, **told):
        names.append(node.name)
        return sync_node(node=node, **told)

    monkeypatch.setattr(together, "sync_node", hear)
    return names


def call(node, *reports, **fields):
    """As a door makes it: the node as its token was looked up."""
    said = {"boot_id": "boot-1", "agent_id": "agent-1", "seen_revision": 0, "hold_s": 0}
    said |= {"protocol": 1, "agent_version": "0.1.0", "sent_at": at(9).timestamp()} | fields
    row = Node.objects.select_related("pool").get(pk=node.pk)
    return Call(row, SyncRequest(reports=reports, **said), at(9))


def left_by(way):
    """The answers, and what is left; undone."""
    with transaction.atomic():
        answers = way()
        rows = [sorted(map(repr, kind.objects.values_list(*names.split()))) for kind, names in ROWS]
        transaction.set_rollback(True)
    return answers, rows


def test_they_leave_what_they_leave_one_after_the_other(cluster, attempts, heard_alone):
    one, two, three, _ = cluster.nodes
    first, second, third, _ = attempts

    def said():
        return [
            call(one, running(first, log_size=3)),
            call(two, ended(second)),
            call(one, ended(first)),
            call(one, ended(first), hold_s=20.0, seen_revision=1),
            call(three, running(third)),
            call(two, ended(second)),
        ]

    both = left_by(lambda: sync_nodes(said(), now=at(9)))
    assert heard_alone == []
    assert both == left_by(
        lambda: [sync_node(node=each.node, request=each.request, now=at(9)) for each in said()]
    )


def test_the_later_ones_share_their_statements(cluster, attempts):
    def statements(calls):
        with CaptureQueriesContext(connection) as asked:
            sync_nodes(calls, now=at(9))
        return len(asked)

    def said(nodes):
        return [call(node) for node in nodes]

    two, four = cluster.nodes[:2], cluster.nodes
    assert statements(said(two) + said(two)) == statements(said(four) + said(four))


def test_who_is_heard_alone_is_heard_alone_again(cluster, attempts, heard_alone):
    """What the first call changed of its node may make the next one's look-up out of date."""
    four = cluster.node(4)
    others = [call(node) for node in cluster.nodes[:3]]
    wrong, next_one = call(four, running(attempts[3]), troubles=()), call(four, ended(attempts[3]))
    answers = sync_nodes([wrong, *others, next_one, *others], now=at(9))
    assert heard_alone == ["n4", "n4"]
    assert answers[4].forget == (attempts[3].pk,)
