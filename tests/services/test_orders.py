"""What a node is told: the whole truth, and no more words of it than it needs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.conf import load_conf
from scheduler.models import Node
from scheduler.services.jobs import cancel_job
from scheduler.wire.readings import HostSample
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, gpus=8).node(1)


def told(reply):
    return [one.fence for one in reply.assignments], list(reply.kept)


def test_what_goes_on_is_told_by_its_fence_alone(node, alice, project):
    first, second = (start(submit(alice, project), node) for _ in range(2))
    assert told(sync(node, takes_kept=True)) == ([first.pk, second.pk], [])
    mine = running(first)
    assert told(sync(node, mine, takes_kept=True)) == ([second.pk], [first.pk])
    assert told(sync(node, mine)) == ([first.pk, second.pk], []), "an older agent"
    # Another rank's report is no sign that this one is known.
    foreign = running(second, rank=1)
    assert told(sync(node, mine, foreign, takes_kept=True)) == ([second.pk], [first.pk])


def test_a_stop_is_told_whole_and_an_end_not_at_all(node, alice, project):
    first, second = (start(submit(alice, project), node) for _ in range(2))
    sync(node, running(first), running(second), takes_kept=True)
    cancel_job(actor=alice, job=first.job, now=at(5))
    reply = sync(node, running(first), running(second), takes_kept=True)
    assert told(reply) == ([first.pk], [second.pk])
    assert reply.assignments[0].stop is not None
    assert reply.revision == Node.objects.get(pk=node.pk).desired_revision
    reply = sync(node, ended(first), running(second), takes_kept=True)
    assert (told(reply), reply.forget) == (([], [second.pk]), (first.pk,))


def test_a_quiet_renewal_takes_as_few_statements_as_it_can(node, alice, project):
    """The heartbeat that reads the node back, the reading, what is known, what runs here.

    Where rows are locked, those of the attempts and devices come first, as stops and starts do.
    """
    reports = [running(start(submit(alice, project), node)) for _ in range(8)]
    quiet = {"takes_kept": True, "host_sample": HostSample(NOON.timestamp(), 1.0, 1, 1)}
    sync(node, *reports, **quiet)
    # As every call finds it: with the name of the agent that spoke first.
    node = Node.objects.select_related("pool").get(pk=node.pk)
    with CaptureQueriesContext(connection) as seen:
        assert len(sync(node, *reports, **quiet).kept) == 8
    words = [query["sql"].split()[0] for query in seen if "SAVEPOINT" not in query["sql"]]
    locks = ["SELECT", "SELECT"] if connection.features.has_select_for_update else []
    assert words == [*locks, "UPDATE", "SELECT", "INSERT", "SELECT"]


def test_other_ranks_are_called_when_there_is_something_to_tell_them(root, alice, project):
    """Not at the start of the gang: a call that is held would be answered with nothing."""
    cluster = scenes.build_cluster(root, nodes=3, gpus=1)
    one, two, free = cluster.nodes

    def revisions():
        found = dict(Node.objects.values_list("pk", "desired_revision"))
        return [found[node.pk] for node in (one, two, free)]

    before = revisions()
    attempt = start(submit(alice, project, nodes=2), one, two)
    assert revisions() == [before[0] + 1, *before[1:]]
    assert told(sync(one)) == ([attempt.pk], []) and told(sync(two)) == ([], [])
    sync(one, running(attempt, master_port=29_500))
    assert revisions() == [before[0] + 1, before[1] + 1, before[2]]
    assert told(sync(two)) == ([attempt.pk], [])


def test_a_node_hears_by_what_grace_its_jobs_are_given_away(node, alice, project):
    start(submit(alice, project), node)
    (order,) = sync(node).assignments
    assert order.launch.usual_grace_s == load_conf().disconnect_grace_s == 900
